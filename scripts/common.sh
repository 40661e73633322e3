# Sourced by the other scripts: where things are, and how to say what goes on.
# shellcheck shell=bash

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
cd -- "$root"

# The environment's directory, inside the checkout unless an absolute path is given.
VENV=${VENV:-.venv}
export VENV

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Sets the environment up when needed (for "dev" or "demo") and puts its commands first on PATH.
enter_venv() {
    bash scripts/setup.sh "$1"
    PATH="$(cd -- "$VENV" && pwd -P)/bin:$PATH"
    export PATH
    # The checker's own look for a newer release would need the network.
    export PYRIGHT_PYTHON_IGNORE_WARNINGS=1
}
