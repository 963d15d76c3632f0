"""Logs kept as records, and a store that fails: lost answers, absences, a full disk, damaged records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from segment_subjects import SEGMENT, entries, placed, read_all

from metastore.interface import (
    LimitExceeded,
    OutcomeUnknown,
    Overloaded,
    StoreError,
    StoreFailed,
    StoreFull,
    Unavailable,
)
from support.world import Process, World, run, settle
from txn.model import paths
from txn.model.errors import RecordDamaged, SegmentUnavailable, TxnError
from txn.model.position import Position
from txn.segment.errors import Fenced, GroupTooLarge, LogStopped, SegmentFull
from txn.segment.log import StoredLogOptions, StoredLogs, StoredSegmentLog
from txn.segment.log.fences import FENCE_ATTEMPTS_MAX
from txn.segment.log.pipeline import CHUNKS_UNDER_WAY_MAX, PUT_ATTEMPTS_MAX
from txn.segment.log.stored import CHANGE_ATTEMPTS_MAX
from txn.segment.log.takeover import CLOSING_ATTEMPTS_MAX, TAKEOVER_ATTEMPTS_MAX

STATE = f"/segments/{paths.escaped(SEGMENT)}/log"
FENCE = f"{STATE}/fence"
CHUNKS = f"{STATE}/0"
SMALL = StoredLogOptions(chunk_bytes_max=100, recent_bytes_max=0)
CUT = OutcomeUnknown("the connection broke")

with_and_without_transact = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])
Lacks = tuple[str, ...]


def put_of(lacks: Lacks) -> str:
    """How chunks are put."""
    return "put" if lacks else "transact"


def chunk_key(ledger: int, entry: int) -> str:
    return f"{STATE}/{ledger:020}/{entry:020}"


async def opened(process: Process, term: int, options: StoredLogOptions = SMALL) -> StoredSegmentLog:
    return await StoredLogs(process.store, pace=process.pace, options=options).open(SEGMENT, term)


async def passing(world: World, task: asyncio.Future[Any]) -> None:
    """Lets time pass until it is done."""
    while not task.done():
        await world.pass_ms(10_000)


@with_and_without_transact
@pytest.mark.parametrize("error", [CUT, Unavailable("away"), Overloaded("busy")])
@pytest.mark.parametrize("is_after", [False, True])
def test_an_append_outlasts_what_passes(lacks: Lacks, error: StoreError, is_after: bool) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1)
        times = 1 if is_after else PUT_ATTEMPTS_MAX - 1
        if not is_after or error is CUT:
            process.script.fail(put_of(lacks), error, prefix=CHUNKS, after=is_after, times=times)
        process.script.fail("get", Unavailable("away"), prefix=CHUNKS, times=2 if is_after else None)
        append, behind = log.append([b"x" * 90]), log.append([b"behind"])
        await passing(world, append)
        assert (await append, await behind) == (Position(1, 0), Position(1, 1))
        process.script.clear()
        assert await read_all(log) == placed(1, [b"x" * 90, b"behind"])

    run(scenario, lacks)


@with_and_without_transact
def test_a_lost_answer_is_found_out_at_once(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1)
        process.script.fail(put_of(lacks), CUT, prefix=CHUNKS, after=True)
        assert await log.append(entries(2)) == Position(1, 0)
        assert process.sleeper.slept == []

    run(scenario, lacks)


@with_and_without_transact
@pytest.mark.parametrize(
    ("error", "told", "takes_time"),
    [
        (StoreFull("no space"), SegmentFull, False),
        (LimitExceeded("too large"), GroupTooLarge, False),
        (Unavailable("away"), SegmentUnavailable, True),
    ],
)
def test_a_refused_append_changes_nothing(
    lacks: Lacks, error: StoreError, told: type[TxnError], takes_time: bool
) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1)
        await log.append([b"before"])
        process.script.fail(put_of(lacks), error, prefix=CHUNKS, times=None)
        appends = [log.append([b"x" * 90, b"%d" % number]) for number in range(2 * CHUNKS_UNDER_WAY_MAX)]
        waiting = asyncio.ensure_future(log.wait_appended(Position(1, 0)))
        for append in appends:
            await (passing(world, append) if takes_time else settle())
            with pytest.raises(told) as raised:
                await append
            assert type(raised.value) is told
        assert log.next_position == Position(1, 1)
        process.script.clear()
        assert await log.append([b"after"]) == Position(1, 1)
        assert await waiting
        assert await read_all(log) == placed(1, [b"before", b"after"])

    run(scenario, lacks)


@with_and_without_transact
@pytest.mark.parametrize("what", ["a later chunk landed", "it is not known", "it was not known", "the store broke"])
def test_a_log_in_doubt_stops_and_the_next_owner_decides(lacks: Lacks, what: str) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1)
        await log.append([b"before"])
        if what == "a later chunk landed":
            process.script.fail(put_of(lacks), StoreFull("no space"), prefix=chunk_key(1, 1))
        elif what == "it is not known":
            process.script.fail(put_of(lacks), CUT, prefix=CHUNKS, times=None)
        elif what == "it was not known":  # and since then the store is away
            process.script.fail(put_of(lacks), CUT, prefix=CHUNKS)
            process.script.fail(put_of(lacks), Unavailable("away"), prefix=CHUNKS, times=None)
        else:
            process.script.fail(put_of(lacks), StoreFailed("broken"), prefix=CHUNKS, times=None)
        appends = [log.append([b"x" * 90]), log.append([b"y" * 90])]
        for append in appends:
            await passing(world, append)
            with pytest.raises(LogStopped, match="in doubt"):
                await append
        with pytest.raises(LogStopped, match="in doubt"):
            log.append([b"more"])
        with pytest.raises(LogStopped, match="in doubt"):
            await log.wait_appended(None)
        process.script.clear()
        assert await read_all(await opened(process, 2)) == placed(1, [b"before"])

    run(scenario, lacks)


@pytest.mark.parametrize(
    ("prefix", "skip", "lacks"),
    [(FENCE, 0, ()), (STATE, 1, ()), (CHUNKS, 0, ("transact",)), (STATE, 1, ("transact",))],
    ids=["fence", "state with a fence", "closing record", "state with a closing record"],
)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_takeover_outlasts_lost_answers(prefix: str, skip: int, lacks: Lacks, is_after: bool) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(world.process(), 1)
        await log.append(entries(3))
        process.script.fail("put", CUT, prefix=prefix, after=is_after, skip=skip, times=2 - is_after)
        taking = process.start(opened(process, 2))
        await passing(world, taking)
        later = await taking
        assert await read_all(later) == placed(1, entries(3))
        process.script.clear()
        await later.append([b"new"])

    run(scenario, lacks)


@with_and_without_transact
def test_a_takeover_that_fails_can_be_tried_again(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(world.process(), 1)
        await log.append(entries(3))
        for method in ("get", "put", "scan"):
            process.script.fail(method, Unavailable("away"), prefix=STATE)
            with pytest.raises(SegmentUnavailable, match="away"):
                await opened(process, 2)
        process.script.fail("put", StoreFull("no space"), prefix=STATE)
        with pytest.raises(SegmentFull, match="no space"):
            await opened(process, 2)
        assert await read_all(await opened(process, 2)) == placed(1, entries(3))

    run(scenario, lacks)


@pytest.mark.parametrize(
    ("prefix", "skip", "attempts", "lacks"),
    [
        (FENCE, 0, FENCE_ATTEMPTS_MAX, ()),
        (CHUNKS, 0, CLOSING_ATTEMPTS_MAX, ("transact",)),
        (STATE, 1, TAKEOVER_ATTEMPTS_MAX, ("transact",)),
    ],
    ids=["fence", "closing record", "state"],
)
def test_attempts_to_take_over_are_bounded(prefix: str, skip: int, attempts: int, lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await opened(world.process(), 1)
        process.script.fail("put", CUT, prefix=prefix, skip=skip, times=None)
        taking = process.start(opened(process, 2))
        await passing(world, taking)
        with pytest.raises(SegmentUnavailable, match=f"{attempts} "):
            await taking
        assert process.script.arrivals["memory.put.before"] >= attempts
        process.script.clear()
        await opened(process, 2)

    run(scenario, lacks)


@with_and_without_transact
@pytest.mark.parametrize("is_after", [False, True])
def test_sealing_and_trimming_outlast_lost_answers(lacks: Lacks, is_after: bool) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1)
        await log.append(entries(3))
        for change in (log.seal, partial(log.trim, Position(1, 3))):
            process.script.fail("put", CUT, prefix=STATE, after=is_after)
            changing = process.start(change())
            await passing(world, changing)
            await changing
        later = await opened(process, 2)
        assert (later.is_sealed, later.first, later.last_confirmed) == (True, None, Position(1, 2))

    run(scenario, lacks)


@with_and_without_transact
def test_a_seal_that_fails_can_be_called_again(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1)
        process.script.fail("put", StoreFull("no space"), prefix=STATE)
        with pytest.raises(SegmentFull):
            await log.seal()
        assert not log.is_sealed
        process.script.fail("put", CUT, prefix=STATE, times=CHANGE_ATTEMPTS_MAX)
        sealing = process.start(log.seal())
        await passing(world, sealing)
        with pytest.raises(SegmentUnavailable, match="CHANGE_ATTEMPTS_MAX"):
            await sealing
        await log.seal()
        assert log.is_sealed

    run(scenario, lacks)


@with_and_without_transact
@pytest.mark.parametrize("point", range(4))
def test_a_trim_that_was_cut_off_is_finished_by_the_next(lacks: Lacks, point: int) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        for term in (1, 2, 3):
            log = await opened(process, term)
            await log.append(entries(3, term))
            await log.append(entries(3, term))
        process.script.fail("delete_range", Unavailable("away"), skip=point)
        with pytest.raises(SegmentUnavailable):
            await log.trim(Position(3, 4))
        if point % 2:
            log = await opened(process, 4)
        assert await read_all(log) == placed(3, entries(3, 3), 3)
        await log.trim(Position(3, 4))
        await log.append([b"more"])
        await log.trim(log.next_position)
        chunks = [key for key in await world.keys() if key.startswith(CHUNKS)]
        closing = [chunk_key(1, 6), chunk_key(2, 6), chunk_key(3, 6)][: 2 + point % 2]
        assert chunks == (closing if lacks else [])

    run(scenario, lacks)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda value: None, "its record is not there"),
        (lambda value: value[:-1] + bytes([value[-1] ^ 1]), "fails its checksum"),
        (lambda value: value[:50] + b"?" + value[51:], "fails its checksum"),
        (lambda value: value[:20], "holds no entries that this version reads"),
        (lambda value: b"TSC\x02" + value[4:], "holds no entries that this version reads"),
    ],
)
def test_damage_is_told_and_never_read(damage: Callable[[bytes], bytes | None], told: str) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1)
        for number in range(5):
            await log.append(entries(2, number))
        key = chunk_key(1, 4)
        record = await process.store.get(key, partition_key=SEGMENT)
        assert record is not None
        assert record.value is not None
        damaged = damage(record.value)
        if damaged is None:
            await process.store.delete(key, partition_key=SEGMENT)
        else:
            await process.store.put(key, damaged, partition_key=SEGMENT)
        for start in (0, 4, 5):
            with pytest.raises(RecordDamaged, match=told):
                await read_all(log, Position(1, start), 10)
        assert len(await log.read(Position(1, 6), 10, 1_000)) == 4

    run(scenario)


def test_a_record_in_another_ones_place_is_damage() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1)
        await log.append(entries(2))
        await log.append(entries(2))
        record = await process.store.get(chunk_key(1, 0), partition_key=SEGMENT)
        assert record is not None
        await process.store.put(chunk_key(1, 2), record.value or b"", partition_key=SEGMENT)
        with pytest.raises(RecordDamaged, match="was written for 1:0"):
            await log.read(Position(1, 2), 1, 1)

    run(scenario)


@pytest.mark.parametrize("value", [b"", b"{}", b'{"format":2}', b'{"format":1,"term":1}'])
def test_a_state_that_is_none_is_damage(value: bytes) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await process.store.put(STATE, value, partition_key=SEGMENT)
        with pytest.raises(RecordDamaged):
            await opened(process, 1)

    run(scenario)


def test_a_deposed_owner_that_misses_what_was_trimmed_does_not_speak_of_damage() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1)
        for number in range(5):
            await log.append(entries(2, number))
        later = await opened(world.process(), 2)
        await later.trim(Position(1, 10))
        with pytest.raises(Fenced):
            await log.read(Position(1, 0), 10, 1_000)

    run(scenario)


def test_many_appends_share_few_records() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1, StoredLogOptions())
        await asyncio.gather(*[log.append([b"%d" % number]) for number in range(1_000)])
        assert process.script.arrivals["memory.transact.before"] == 1
        assert [each.data for each in await read_all(log)] == [b"%d" % number for number in range(1_000)]

    run(scenario)


def test_who_reads_at_the_end_reads_from_memory() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        log = await opened(process, 1, StoredLogOptions())
        await log.append(entries(5))
        process.script.fail("get", Unavailable("away"), times=None)
        assert await read_all(log) == placed(1, entries(5))

    run(scenario)
