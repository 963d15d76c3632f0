"""Logs kept as records, and what races there are: deposed owners, successors, late puts, each at every point."""

from __future__ import annotations

import asyncio
import random

import pytest
from segment_subjects import SEGMENT, entries, placed, read_all

from support.world import Process, World, run, settle
from txn.model import paths
from txn.model.position import Position
from txn.segment.errors import Fenced
from txn.segment.log import SegmentLog, StoredLogOptions, StoredLogs, StoredSegmentLog
from txn.segment.log.pipeline import CHUNKS_UNDER_WAY_MAX

KEY = f"/segments/{paths.escaped(SEGMENT)}/log"
CHUNKS = f"{KEY}/0"
INTERLEAVINGS = 60
SMALL = StoredLogOptions(chunk_bytes_max=100, recent_bytes_max=0)

with_and_without_transact = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])
Lacks = tuple[str, ...]


def put_of(lacks: Lacks) -> str:
    """How chunks are put."""
    return "put" if lacks else "transact"


async def opened(process: Process, term: int) -> StoredSegmentLog:
    return await StoredLogs(process.store, pace=process.pace, options=SMALL).open(SEGMENT, term)


async def chunk_keys(world: World, ledger: int) -> list[str]:
    """Of a ledger's records the entries that they are named after."""
    prefix = f"{KEY}/{ledger:020}/"
    return [str(int(key.removeprefix(prefix))) for key in await world.keys() if key.startswith(prefix)]


@with_and_without_transact
@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_put_that_comes_after_the_takeover_is_neither_confirmed_nor_read(lacks: Lacks, is_trimmed: bool) -> None:
    async def scenario(world: World) -> None:
        before, after = world.process(), world.process()
        deposed = await opened(before, 5)
        await deposed.append(entries(3))
        gate = before.script.hold(put_of(lacks), prefix=CHUNKS)
        late = deposed.append([b"late"])
        await gate.arrived()
        later = await opened(after, 8)
        await later.append([b"new"])
        if is_trimmed:  # and so much of what would have kept it out
            await later.trim(Position(8, 0))
        gate.release()
        with pytest.raises(Fenced):
            await late
        kept = [] if is_trimmed else placed(5, entries(3))
        assert await read_all(later) == [*kept, *placed(8, [b"new"])]
        assert await read_all(await opened(after, 9)) == [*kept, *placed(8, [b"new"])]

    run(scenario, lacks)


@with_and_without_transact
def test_a_put_that_came_before_the_takeover_is_confirmed_and_read(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        before, after = world.process(), world.process()
        deposed = await opened(before, 5)
        await deposed.append(entries(3))
        gate = before.script.hold(put_of(lacks), prefix=CHUNKS, after=True)
        last = deposed.append([b"in time"])
        await gate.arrived()
        later = await opened(after, 8)
        gate.release()
        assert await last == Position(5, 3)
        assert await read_all(later) == placed(5, [*entries(3), b"in time"])
        with pytest.raises(Fenced):
            await deposed.append([b"late"])

    run(scenario, lacks)


@with_and_without_transact
def test_what_lies_behind_a_gap_is_cut_off_and_removed_by_trimming(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        before, after = world.process(), world.process()
        deposed = await opened(before, 5)
        await deposed.append(entries(3))
        gate = before.script.hold(put_of(lacks), prefix=f"{KEY}/{5:020}/{3:020}")
        appends = [deposed.append([b"x" * 90, b"%d" % number]) for number in range(CHUNKS_UNDER_WAY_MAX)]
        await settle()
        assert await chunk_keys(world, 5) == ["0", "5", "7", "9"]
        later = await opened(after, 8)
        assert later.last_confirmed == Position(5, 2)
        gate.release()
        for append in appends:
            with pytest.raises(Fenced):
                await append
        await later.append([b"new"])
        assert await read_all(later) == [*placed(5, entries(3)), *placed(8, [b"new"])]
        await later.trim(Position(8, 0))
        assert await chunk_keys(world, 5) == (["3"] if lacks else [])

    run(scenario, lacks)


@with_and_without_transact
def test_a_trim_during_the_takeover_does_not_hide_where_the_ledger_ends(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        before, after = world.process(), world.process()
        owner = await opened(before, 5)
        for number in range(4):
            await owner.append(entries(2, number))
        gate = after.script.hold("scan", prefix=CHUNKS)  # it has read the state, and the newest chunk
        taking = after.start(opened(after, 8))
        await gate.arrived()
        await owner.trim(Position(5, 8))
        confirmed = 8
        try:
            await owner.append([b"confirmed"])
            confirmed = 9
        except Fenced:
            assert not lacks, "the fence is raised first"
        await settle()
        gate.release()
        while not taking.done():
            await world.pass_ms(10_000)
        later = await taking
        assert later.last_confirmed == Position(5, confirmed - 1)
        assert await read_all(later) == placed(5, [b"confirmed"][: confirmed - 8], 8)

    run(scenario, lacks)


@with_and_without_transact
def test_an_owner_that_writes_on_is_closed_all_the_same(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        before, after = world.process(), world.process()
        owner = await opened(before, 5)
        acknowledged = 0

        async def write_on() -> None:
            nonlocal acknowledged
            while True:
                await owner.append([b"%d" % acknowledged])
                acknowledged += 1

        writing = before.start(write_on())
        await settle()
        later = await opened(after, 8)
        with pytest.raises(Fenced):
            await writing
        found = await read_all(later)
        assert found == placed(5, [b"%d" % number for number in range(len(found))])
        assert len(found) >= acknowledged > 0

    run(scenario, lacks)


@with_and_without_transact
@pytest.mark.parametrize("chunks", [5, 300])
def test_how_long_a_takeover_takes_does_not_depend_on_the_history(lacks: Lacks, chunks: int) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(world.process(), 1)
        for number in range(chunks):
            await log.append([b"%d" % number])
        gate = process.script.hold("scan")
        taking = process.start(opened(process, 2))
        await gate.arrived()
        first_read = int(gate.held[0].arrival.keys[0].rpartition("/")[2])
        assert first_read >= chunks - CHUNKS_UNDER_WAY_MAX
        gate.release()
        assert (await taking).last_confirmed == Position(1, chunks - 1)
        calls = process.script.arrivals
        assert (calls["memory.get.before"], calls["memory.scan.before"]) == (3 - len(lacks), 1)

    run(scenario, lacks)


class History:
    """What owners were told and what they read, in one run; the rules that must hold over all of it."""

    def __init__(self) -> None:
        self.acknowledged: dict[Position, bytes] = {}
        self.readings: list[tuple[int, Position, dict[Position, bytes]]] = []
        """Each with its reader's term, and where what was kept began."""
        self.fenced = 0

    async def append(self, log: SegmentLog, data: list[bytes]) -> None:
        first = await log.append(data)
        self.acknowledged.update(placed(first.ledger, data, first.entry))

    async def read(self, log: SegmentLog) -> None:
        """What was acknowledged before is read, unless it is trimmed."""
        before = dict(self.acknowledged)
        found, oldest = dict(await read_all(log)), log.lengths.oldest
        self.readings.append((log.term, oldest, found))
        assert found.items() >= {place: data for place, data in before.items() if place >= oldest}.items()

    def check(self) -> None:
        """No position ever held two entries, and what an owner found in older ledgers is what all later ones find."""
        final_term, final_oldest, final = self.readings[-1]
        for term, oldest, found in self.readings:
            assert term <= final_term
            since = max(oldest, final_oldest)
            older = {place: data for place, data in found.items() if place >= since and place.ledger < term}
            assert older == {place: data for place, data in final.items() if place >= since and place.ledger < term}
            assert all(self.acknowledged.get(place, data) == data for place, data in found.items())


async def own(history: History, choice: random.Random, process: Process, term: int) -> None:
    """An owner that does not know of the others: appends and trims as chance wants it, until it is fenced."""

    async def stroll(steps_max: int) -> None:
        for _ in range(choice.randrange(steps_max)):
            await asyncio.sleep(0)

    appends: list[asyncio.Task[None]] = []
    try:
        await stroll(30 * term)
        log = await opened(process, term)
        await history.read(log)
        for number in range(choice.randrange(8)):
            data = [b"%d-%d-%d" % (term, number, place) for place in range(choice.randrange(1, 4))]
            appends.append(process.start(history.append(log, data)))
            await stroll(12)
            if choice.random() < 0.15 and log.last_confirmed is not None:
                await log.trim(choice.choice([log.last_confirmed, log.next_position]))
    except Fenced:
        history.fenced += 1
    for outcome in await asyncio.gather(*appends, return_exceptions=True):
        assert outcome is None or isinstance(outcome, Fenced)
        history.fenced += outcome is not None


@with_and_without_transact
def test_whatever_the_interleaving_what_was_acknowledged_is_read_by_all(lacks: Lacks) -> None:
    fenced = acknowledged = 0
    for seed in range(INTERLEAVINGS):
        history, choice = History(), random.Random(seed)

        async def scenario(world: World, history: History = history, choice: random.Random = choice) -> None:
            owners = [(world.process(), term) for term in range(1, 6)]
            owning = [process.start(own(history, choice, process, term)) for process, term in owners]
            while not all(each.done() for each in owning):
                await world.pass_ms(10_000)
            for each in owning:
                each.result()
            await history.read(await opened(world.process(), 9))
            history.check()

        run(scenario, lacks)
        fenced += history.fenced
        acknowledged += len(history.acknowledged)
    print(f"{acknowledged} entries acknowledged, {fenced} calls fenced")
    assert min(fenced, acknowledged) > INTERLEAVINGS
