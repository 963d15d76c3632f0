"""An election: two candidates, one leader at a time, and no late word from the last one."""

from __future__ import annotations

import asyncio

from metastore.coordination import Deposed, Election, Grant
from metastore.interface import open_store
from metastore.stagecraft import begin_chapter, say

ROLE = "/jobs/scheduler"


def show_an_election(url: str) -> None:
    """From one leader to the next."""
    begin_chapter("An election, and a handover")
    asyncio.run(_hand_over(url))


async def _hand_over(url: str) -> None:
    # Two stores, as two processes would have them.
    async with await open_store(url) as one, await open_store(url) as other:
        first = await Election(one, ROLE, b"host-1:8080", identity="host-1").campaign()
        _tell_leader("host-1", first)
        succession = Election(other, ROLE, b"host-2:8080", identity="host-2")
        waiting = asyncio.create_task(succession.campaign())
        await first.put("/jobs/state", b"3 of 10 done")
        say("host-1 writes on the strength of its term, while host-2 waits; then it resigns")
        await first.release()
        second = await waiting
        _tell_leader("host-2", second)
        try:
            await first.put("/jobs/state", b"4 of 10 done")
        except Deposed as error:
            say(f"a late write of host-1 is refused: {error}")
        leader = await succession.leader()
        assert leader is not None
        say(f"whoever asks is told: {leader.value!r} leads")
        await second.release()


def _tell_leader(name: str, leadership: Grant) -> None:
    say(f"{name} is elected, under term {leadership.term}")
