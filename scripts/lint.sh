#!/usr/bin/env bash
# Style, formatting, and which module may import which.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
enter_venv dev

say "ruff"
ruff check
ruff format --check
say "import-linter"
lint-imports
