#!/usr/bin/env bash
# Everything. Ends with pytest's closing line; stops before the tests when a check fails, so that the line means all.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
enter_venv dev

bash scripts/lint.sh
bash scripts/type.sh
say "pytest"
export HYPOTHESIS_PROFILE=${HYPOTHESIS_PROFILE:-ci}
exec python -m pytest "$@"
