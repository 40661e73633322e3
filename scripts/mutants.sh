#!/usr/bin/env bash
# Nightly: changes one line of model/ or engine/ at a time and lists the changes that no fast test notices.
# FILES= which modules (anarchon/model/leasing.py ...), ARGS= further options of scripts/mutants.py.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
enter_venv dev

# shellcheck disable=SC2086
exec python scripts/mutants.py ${FILES:-} "$@"
