#!/usr/bin/env bash
# A minute or two, no server: unit tests, properties, and the contract of the stores that need none.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
enter_venv dev

shopt -s nullglob
paths=(tests/unit* tests/properties* tests/conformance/test_memory* tests/conformance/test_sqlite*)
export HYPOTHESIS_PROFILE=${HYPOTHESIS_PROFILE:-quick}
exec python -m pytest -m "not slow and not processes" "${paths[@]}" "$@"
