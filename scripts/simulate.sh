#!/usr/bin/env bash
# Whole clusters in virtual time, one per seed, judged by what must always hold. SEEDS= how many, FIRST= from where on;
# SEED= one alone, with its whole history.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
enter_venv dev

export PYTHONPATH="$root:$root/backends"
if [ -n "${SEED:-}" ]; then
    exec python -m tests.simulation.run --seed "$SEED" "$@"
fi
exec python -m tests.simulation.run --seeds "${SEEDS:-200}" --first "${FIRST:-0}" "$@"
