#!/usr/bin/env bash
# Removes the environments and everything else that can be made again.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

shopt -s nullglob
for environment in .venv .venv-*; do
    if [[ -f $environment/pyvenv.cfg ]]; then rm -rf -- "$environment"; fi
done
rm -rf -- .venv*.lock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
find anarchon backends tests -name __pycache__ -type d -prune -exec rm -rf -- {} +
