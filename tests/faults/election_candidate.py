"""A candidate in a process of its own: while it leads it counts in two records; a line of JSON for all it learns.

One record is in the role's partition and written on the condition that the grant stands; the other is in another
partition and carries its fence itself. So both kinds of fenced writes are under way whenever something happens to it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time

from metastore.coordination import Deposed, Election, Grant
from metastore.interface import ABSENT, OutcomeUnknown, Retriable, UnexpectedVersion, open_store

ROLE = "/role"
GRANTED_KEY = "/role/granted"
GUARDED_KEY = "/guarded"
GUARDED_PARTITION = "/elsewhere"
PAUSE_S = 0.002
"""Between two rounds of writes, so that candidates leave the machine to each other."""


def tell(event: str, term: int, **more: object) -> None:
    """Says it to whoever has started the process; what was said counts even if the process dies in the next moment."""
    print(json.dumps({"event": event, "term": term, "at_s": time.monotonic(), **more}), flush=True)


async def count(leadership: Grant) -> None:
    """Counts on in both records until it is interrupted."""
    guarded = leadership.guard(GUARDED_KEY, partition_key=GUARDED_PARTITION)
    while True:
        try:
            await count_granted(leadership)
            value = int(await guarded.read() or b"0") + 1
            await guarded.write(b"%d" % value)
            tell("wrote", leadership.term, key=GUARDED_KEY, count=value)
        except (Retriable, OutcomeUnknown, UnexpectedVersion) as error:
            tell("failed", leadership.term, error=type(error).__name__)
        await asyncio.sleep(PAUSE_S)


async def count_granted(leadership: Grant) -> None:
    record = await leadership.store.get(GRANTED_KEY, partition_key=ROLE)
    version_id = ABSENT if record is None else record.version.version_id
    value = 1 if record is None or record.value is None else int(json.loads(record.value)["count"]) + 1
    state = json.dumps({"term": leadership.term, "count": value}).encode()
    await leadership.put(GRANTED_KEY, state, expected=version_id)
    tell("wrote", leadership.term, key=GRANTED_KEY, count=value)


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
        election = Election(
            store, ROLE, name.encode(), session_timeout_ms=session_timeout_ms, identity=name
        )
        while True:
            resign.clear()
            try:
                await lead(election, resign)
            except Deposed as error:
                tell("deposed", ABSENT, why=str(error))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
