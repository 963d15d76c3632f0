"""Leaders in processes of their own, killed, frozen, cut off and resigning: never two whose writes both succeed."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable

import pytest
from election_audit import Ledger, Stored, following, judge
from election_candidate import GRANTED_KEY, GUARDED_KEY
from election_staging import Candidate, Event, Stage, candidates

from metastore.interface import open_store
from support.server import ServerProcess

CANDIDATES = 3
SHARDS = 2
SESSION_TIMEOUT_MS = 2_000
WRITES = 100
"""Of each leader, before something happens to it and after it has taken over."""

Harm = Callable[[Candidate], Awaitable[None]]


async def kill(leader: Candidate) -> None:
    await leader.kill()


async def restart(leader: Candidate) -> None:
    await leader.start()


async def freeze(leader: Candidate) -> None:
    leader.send(signal.SIGSTOP)


async def thaw(leader: Candidate) -> None:
    leader.send(signal.SIGCONT)


async def cut_off(leader: Candidate) -> None:
    leader.relay.hold()


async def let_go(leader: Candidate) -> None:
    leader.relay.let_go()


async def resign(leader: Candidate) -> None:
    leader.send(signal.SIGUSR1)


async def nothing(leader: Candidate) -> None:
    pass


HARMS: dict[str, tuple[Harm, Harm, str | None]] = {
    "killed": (kill, restart, None),
    "frozen": (freeze, thaw, "deposed"),
    "cut off": (cut_off, let_go, "deposed"),
    "resigning": (resign, nothing, "resigned"),
}
"""What is done to the leader, how it is undone when another leads, and what it then has to say."""
PLAN = ["resigning", "frozen", "killed", "cut off", "resigning", "frozen", "cut off", "resigning"]


async def hand_over(stage: Stage, cast: dict[str, Candidate], leader: Event, how: str) -> tuple[Event, float]:
    """The next leader, once it has written, and after how many seconds there was one.

    On a machine that is busy a leader may be deposed because it had no time to say that it is there, and another
    leads then: whoever of them comes to write counts.
    """
    harm, undo, says = HARMS[how]
    place = len(stage.events)
    began_s = time.monotonic()
    await harm(cast[leader.candidate])
    successor = await stage.wait("elected", after=place)
    await stage.wait_leader(after=place, writes=WRITES)
    undone = len(stage.events)
    await undo(cast[leader.candidate])
    if says is not None:
        await stage.wait(says, after=place, candidate=leader.candidate)
    return await stage.wait_leader(after=place, writes=WRITES, written_after=undone), successor.at_s - began_s


async def play(server: ServerProcess, stage: Stage) -> tuple[Ledger, dict[str, list[float]]]:
    """Runs the plan; what was stored, and how long each handover took."""
    took_s: dict[str, list[float]] = {how: [] for how in HARMS}
    async with (
        await open_store(f"oxia://{server.address}") as store,
        following(store) as ledger,
        candidates(CANDIDATES, stage, server.port, SESSION_TIMEOUT_MS) as cast,
    ):
        leader = await stage.wait_leader(writes=WRITES)
        for how in PLAN:
            leader, seconds = await hand_over(stage, cast, leader, how)
            took_s[how].append(seconds)
    return ledger, took_s


def test_no_two_leaders_write_with_success(
    capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    stage = Stage()
    with ServerProcess(shards=SHARDS) as server:
        ledger, took_s = asyncio.run(play(server, stage))
    report = judge(ledger, stage.events)
    assert report["terms"] >= len(PLAN) + 1
    assert report["handovers with writes on both sides"] >= len(PLAN)
    assert report["depositions"] >= sum(how in ("frozen", "cut off") for how in PLAN)
    lines = [f"{name}: {count}" for name, count in report.items()]
    lines += [f"{how}: {', '.join(f'{seconds:.3f}' for seconds in took_s[how])} s" for how in HARMS]
    record_property("elections", "; ".join(lines))
    with capsys.disabled():
        print("\nelections: " + "; ".join(lines))


def wrote(candidate: str, term: int, key: str, count: int) -> Event:
    return Event(candidate, "wrote", term, 0.0, key, count)


@pytest.mark.parametrize(
    ("states", "events", "complaint"),
    [
        ([Stored(1, 1), Stored(2, 2), Stored(1, 3)], [], "written over its successor"),
        ([Stored(1, 1), Stored(1, 3)], [], "counts went by"),
        ([Stored(3, 1)], [], "nobody held"),
        ([Stored(1, 1)], [wrote("a", 1, GRANTED_KEY, 2)], "acknowledged and not stored"),
        ([Stored(1, 1)], [Event("b", "elected", 1, 3.0)], "two holders"),
        ([Stored(1, 1)], [Event("c", "elected", 0, 3.0)], "in the order"),
    ],
)
def test_the_judge_knows_what_is_wrong(states: list[Stored], events: list[Event], complaint: str) -> None:
    elected = [Event("a", "elected", 1, 1.0), Event("b", "elected", 2, 2.0)]
    good = {GRANTED_KEY: [Stored(1, 1), Stored(2, 2)], GUARDED_KEY: [Stored(1, 0), Stored(1, 1), Stored(2, 1)]}
    judge(Ledger(good), [*elected, wrote("a", 1, GRANTED_KEY, 1), wrote("b", 2, GRANTED_KEY, 2)])
    with pytest.raises(AssertionError, match=complaint):
        judge(Ledger({**good, GRANTED_KEY: states}), [*elected, *events])
