#!/usr/bin/env bash
# Both type checkers; a user may have either.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
enter_venv dev

say "mypy"
mypy
say "pyright"
pyright --warnings
