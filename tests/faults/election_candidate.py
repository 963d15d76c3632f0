"""A candidate in a process of its own: while it leads it counts in three records; a line of JSON for all it learns.

Two records are in the role's partition and written on the condition that the grant stands: one is counted on from what
it says, the other is overwritten by several tasks at once without looking. The third is in another partition and
carries its fence itself. So writes of every kind are under way whenever something happens to the candidate.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable

from metastore.coordination import Deposed, Election, Grant
from metastore.interface import ABSENT, OutcomeUnknown, Retriable, UnexpectedVersion, open_store

ROLE = "/role"
GRANTED_KEY = "/role/granted"
BLIND_KEY = "/role/blind"
BLIND_WRITERS = 4
GUARDED_KEY = "/guarded"
GUARDED_PARTITION = "/elsewhere"
PAUSE_S = 0.002
"""Between two rounds of writes, so that candidates leave the machine to each other."""


def tell(event: str, term: int, **more: object) -> None:
    """Says it to whoever has started the process; what was said counts even if the process dies in the next moment."""
    print(json.dumps({"event": event, "term": term, "at_s": time.monotonic(), **more}), flush=True)


async def repeat(leadership: Grant, write: Callable[[], Awaitable[tuple[str, int]]]) -> None:
    """Writes again and again, until that is no longer allowed."""
    while True:
        try:
            key, count = await write()
            tell("wrote", leadership.term, key=key, count=count)
        except (Retriable, OutcomeUnknown, UnexpectedVersion) as error:
            tell("failed", leadership.term, error=type(error).__name__)
        await asyncio.sleep(PAUSE_S)


async def count(leadership: Grant) -> None:
    """Counts in all records until it is interrupted, or finds itself deposed."""
    guarded = leadership.guard(GUARDED_KEY, partition_key=GUARDED_PARTITION)
    numbers = itertools.count(1)

    def state(value: int) -> bytes:
        return json.dumps({"term": leadership.term, "count": value}).encode()

    async def write_granted() -> tuple[str, int]:
        record = await leadership.store.get(GRANTED_KEY, partition_key=ROLE)
        version_id = ABSENT if record is None else record.version.version_id
        value = 1 if record is None or record.value is None else int(json.loads(record.value)["count"]) + 1
        await leadership.put(GRANTED_KEY, state(value), expected=version_id)
        return GRANTED_KEY, value

    async def write_blindly() -> tuple[str, int]:
        value = next(numbers)
        await leadership.put(BLIND_KEY, state(value))
        return BLIND_KEY, value

    async def write_guarded() -> tuple[str, int]:
        value = int(await guarded.read() or b"0") + 1
        await guarded.write(b"%d" % value)
        return GUARDED_KEY, value

    writes = [write_granted, write_guarded, *[write_blindly] * BLIND_WRITERS]
    tasks = [asyncio.ensure_future(repeat(leadership, write)) for write in writes]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def lead(election: Election, resign: asyncio.Event) -> None:
    """One term, until it is lost or the signal to resign comes."""
    async with election.lead() as leadership:
        tell("elected", leadership.term)
        counting = asyncio.ensure_future(count(leadership))
        resigning = asyncio.ensure_future(resign.wait())
        try:
            await asyncio.wait({counting, resigning}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            resigning.cancel()
            counting.cancel()
            await asyncio.wait({counting, resigning})
        if not counting.cancelled():
            counting.result()
    tell("resigned", leadership.term)


async def run(url: str, name: str, session_timeout_ms: int) -> None:
    resign = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, resign.set)
    async with await open_store(url) as store:
        election = Election(store, ROLE, name.encode(), session_timeout_ms=session_timeout_ms, identity=name)
        while True:
            resign.clear()
            try:
                await lead(election, resign)
            except Deposed as error:
                tell("deposed", ABSENT, why=str(error))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
