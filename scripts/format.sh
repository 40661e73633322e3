#!/usr/bin/env bash
# Rewrites the sources: the formatting, and what the linter can put right by itself.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
enter_venv dev

ruff check --fix
ruff format
