#!/usr/bin/env bash
# The demo, with nothing installed but what it needs.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
enter_venv demo

exec anarchon demo "$@"
