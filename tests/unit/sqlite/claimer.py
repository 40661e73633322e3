"""A process that claims slots on a file, for tests that start several and kill some.

    claimer.py FILE INSTANCE ACKNOWLEDGED FIRST COUNT BATCH

claims COUNT slots from FIRST on, in batches, and appends each slot that it has won to the file ACKNOWLEDGED, after
the answer came.
"""

from __future__ import annotations

import asyncio
import os
import sys

from anarchon.model.asks import Won
from tests.unit.sqlite.support import ask, opened


async def main(path: str, instance_id: str, acknowledged: str, first: int, count: int, batch: int) -> None:
    log = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with opened(path, instance_id, busy_timeout_ms=30_000) as backend:
        for start in range(first, first + count, batch):
            slots = range(start, min(start + batch, first + count))
            answers = await backend.claim([ask(slot, by=instance_id) for slot in slots])
            won = [slot for slot, answer in zip(slots, answers, strict=True) if isinstance(answer, Won)]
            os.write(log, "".join(f"{slot} {instance_id}\n" for slot in won).encode())


if __name__ == "__main__":
    _, file, name, acknowledgements, first_slot, slot_count, batch_size = sys.argv
    asyncio.run(main(file, name, acknowledgements, int(first_slot), int(slot_count), int(batch_size)))
