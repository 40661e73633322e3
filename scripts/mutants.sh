#!/usr/bin/env bash
# Changes one line of model/ or engine/ at a time and lists the changes that no fast test notices.
# FILES= which modules (anarchon/model/leasing.py ...), ARGS= further options of scripts/mutants.py.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
enter_venv dev

export PYTHONPATH="$root:$root/backends"
# shellcheck disable=SC2086
exec python -m scripts.mutants ${FILES:-} "$@"
