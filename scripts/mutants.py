"""Which changed lines of the engine does no fast test notice?

Changes one place of a module at a time (a statement left out, a condition forced, a comparison or a bound turned
round) and runs the fast tests and fifty simulated clusters against it. What none of them notices is looked up in
`mutants-survivors.txt`, which gives the reason why it changes nothing; what is not there is printed, and the answer
is 1.

    python -m scripts.mutants [MODULE ...] [--kinds KIND ...] [--within S] [--sample N] [--only TEXT]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

from scripts.mutating import KINDS, Mutant, mutants_of
from scripts.noticing import NOT_YET, NOTHING, judge

SURVIVORS = Path(__file__).with_name("mutants-survivors.txt")

MODULES = (
    "anarchon/model/leasing.py",
    "anarchon/model/options.py",
    "anarchon/model/run.py",
    "anarchon/model/settling.py",
    "anarchon/model/slots.py",
    "anarchon/model/trimming.py",
    "anarchon/engine/active.py",
    "anarchon/engine/catch_up.py",
    "anarchon/engine/claimer.py",
    "anarchon/engine/engine.py",
    "anarchon/engine/env.py",
    "anarchon/engine/keeper.py",
    "anarchon/engine/planner.py",
    "anarchon/engine/recorder.py",
    "anarchon/engine/runner.py",
    "anarchon/engine/survey.py",
)


def known_survivors() -> dict[str, str]:
    """Those that change nothing, each with its reason."""
    known: dict[str, str] = {}
    for line in SURVIVORS.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.partition("  # ")
            known[key.strip()] = reason.strip()
    return known


def main() -> int:
    """Answer 1 when something survived that has no reason to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=list(MODULES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--within", type=float, default=float("inf"), help="give each so many seconds at most")
    parser.add_argument("--sample", type=int, help="only so many, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--only", default="", help="only those whose name contains this text")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    options = parser.parse_args()
    mutants = [
        mutant
        for module in options.modules
        for mutant in mutants_of(module)
        if options.only in mutant.key and mutant.kind in options.kinds
    ]
    if options.sample is not None and options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    if options.list:
        print("\n".join(f"{mutant.kind}: {mutant.key}" for mutant in mutants))
        return 0
    known = known_survivors()
    explained = [mutant for mutant in mutants if mutant.key in known]
    tried = [mutant for mutant in mutants if mutant.key not in known]
    began = time.monotonic()
    survivors: list[Mutant] = []

    def tell(mutant: Mutant, noticed: str) -> None:
        if noticed in (NOTHING, NOT_YET):
            survivors.append(mutant)
            print(f"SURVIVED ({noticed}) {mutant.key}", flush=True)
        else:
            print(f"  {noticed}: {mutant.key}", flush=True)

    os.environ.setdefault("HYPOTHESIS_PROFILE", "quick")
    for layer in ("model", "engine"):
        of_layer = [mutant for mutant in tried if mutant.module.split("/")[1] == layer]
        if of_layer:
            judge(of_layer, layer, options.within, tell)
    print("\n".join(["", *sorted(mutant.key for mutant in survivors)]))
    lived = Counter(mutant.module for mutant in survivors)
    for module, count in Counter(mutant.module for mutant in mutants).items():
        reasons = sum(mutant.module == module for mutant in explained)
        print(f"{module}: {count} mutants, {reasons} with a reason to survive, {lived[module]} unexplained survivors")
    print(f"{len(tried)} tried, {len(survivors)} unexplained survivors, in {time.monotonic() - began:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
