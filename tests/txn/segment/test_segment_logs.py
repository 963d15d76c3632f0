"""What every kind of segment log promises: the same suite on files and on records in stores."""

from __future__ import annotations

import asyncio
from itertools import chain

import pytest
from segment_subjects import (
    EVERYTHING,
    GROUP_BYTES_MAX,
    OTHER,
    SEGMENT,
    Place,
    entries,
    every_log,
    placed,
    read_all,
    run,
)

from txn.model.position import Position
from txn.segment.errors import (
    EntriesTrimmed,
    Fenced,
    GroupTooLarge,
    LogInUse,
    LogStopped,
    SegmentBusy,
    SegmentFull,
    SegmentSealed,
)
from txn.segment.log.owned import GROUP_ENTRIES_MAX
from txn.segment.log.waiting import WAITING_BYTES_MAX


@every_log
def test_what_is_appended_is_read_at_the_positions_that_were_told(subject: str) -> None:
    async def scenario(place: Place) -> None:
        log = await place.open(5)
        assert (log.first, log.last_confirmed, log.next_position) == (None, None, Position(5, 0))
        assert await log.read(Position(0, 0), 10, EVERYTHING) == []
        assert await log.append(entries(3)) == Position(5, 0)
        assert await log.append([b"", b"x" * 900]) == Position(5, 3)
        assert (log.first, log.last_confirmed, log.next_position) == (Position(5, 0), Position(5, 4), Position(5, 5))
        assert await read_all(log) == placed(5, [*entries(3), b"", b"x" * 900])
        assert await read_all(log, Position(5, 2)) == placed(5, [b"entry-2", b"", b"x" * 900], 2)
        assert await read_all(log, Position(0, 0)) == await read_all(log)
        assert await log.read(Position(5, 5), 1, 1) == await log.read(Position(9, 0), 1, 1) == []

    run(subject, scenario)


@every_log
def test_reads_keep_to_their_bounds(subject: str) -> None:
    async def scenario(place: Place) -> None:
        first = await place.open(1)
        for number in range(20):
            await first.append([b"%03d" % number * 10])
        await first.close()
        for log in (await place.open(2),):
            assert len(await log.read(Position(1, 0), 1, EVERYTHING)) == 1
            assert len(await log.read(Position(1, 3), 7, EVERYTHING)) <= 7
            assert len(await log.read(Position(1, 3), 20, 1)) == 1
            found = await log.read(Position(1, 3), 20, 95)
            assert 1 <= len(found) <= 3
            assert [each.position.entry for each in found] == list(range(3, 3 + len(found)))

    run(subject, scenario)


@every_log
def test_positions_are_taken_in_the_call_and_confirmed_in_order(subject: str) -> None:
    async def scenario(place: Place) -> None:
        log = await place.open(1)
        confirmed: list[int] = []

        async def append(number: int) -> None:
            group = entries(1 + number % 3, 10 * number)
            expected = log.next_position
            assert await log.append(group) == expected
            confirmed.append(number)
            assert log.last_confirmed is not None
            assert log.last_confirmed >= expected

        await asyncio.gather(*map(append, range(40)))
        assert confirmed == list(range(40))
        wanted = [entry for number in range(40) for entry in entries(1 + number % 3, 10 * number)]
        assert await read_all(log) == placed(1, wanted)

    run(subject, scenario)


@every_log
def test_who_stops_waiting_takes_nothing_back(subject: str) -> None:
    async def scenario(place: Place) -> None:
        log = await place.open(1)
        append = asyncio.ensure_future(log.append([b"first"]))
        append.cancel()
        assert await log.append([b"second"]) == Position(1, 1)
        assert await read_all(log) == placed(1, [b"first", b"second"])

    run(subject, scenario)


@every_log
def test_a_later_owner_finds_everything_and_writes_a_ledger_of_its_own(subject: str) -> None:
    async def scenario(place: Place) -> None:
        for term in (3, 4, 10, 11):
            log = await place.open(term)
            if term != 4:  # which leaves no trace
                await log.append(entries(5, term))
            await log.close()
        log = await place.open(20)
        wanted = [*placed(3, entries(5, 3)), *placed(10, entries(5, 10)), *placed(11, entries(5, 11))]
        assert await read_all(log) == wanted
        assert (log.first, log.last_confirmed, log.next_position) == (Position(3, 0), Position(11, 4), Position(20, 0))
        assert [(each.ledger, each.length) for each in log.lengths.ledgers] == [(3, 5), (10, 5), (11, 5), (20, 0)]
        assert (await log.read(Position(3, 5), 1, 1))[0].position == Position(10, 0)
        assert (await log.read(Position(5, 7), 1, 1))[0].position == Position(10, 0)
        await log.append([b"own"])
        assert await read_all(log) == [*wanted, *placed(20, [b"own"])]

    run(subject, scenario)


@every_log
def test_a_term_opens_a_log_once_and_no_smaller_one_follows(subject: str) -> None:
    async def scenario(place: Place) -> None:
        log = await place.open(7)
        await log.append([b"kept"])
        await log.close()
        for term in (7, 6):
            with pytest.raises(Fenced, match="term 7"):
                await place.open(term)
        assert await read_all(await place.open(8)) == placed(7, [b"kept"])

    run(subject, scenario)


@every_log
def test_a_deposed_owner_writes_nothing_more(subject: str) -> None:
    async def scenario(place: Place) -> None:
        deposed = await place.open(7)
        await deposed.append([b"kept"])
        if place.locks:
            with pytest.raises(LogInUse, match="open elsewhere"):
                await place.open(8)
            await deposed.append([b"still the owner"])
            return
        later = await place.open(8)
        with pytest.raises(Fenced):
            await deposed.append([b"late"])
        for refused in (deposed.read(Position(7, 0), 1, 1), deposed.trim(Position(7, 1)), deposed.seal()):
            with pytest.raises(Fenced):
                await refused
        assert await read_all(later) == placed(7, [b"kept"])
        await later.append([b"new"])
        assert await read_all(later) == [*placed(7, [b"kept"]), *placed(8, [b"new"])]

    run(subject, scenario)


@every_log
def test_a_deposed_owner_neither_seals_nor_trims(subject: str) -> None:
    async def scenario(place: Place) -> None:
        if place.locks:
            return  # there is no later owner while it lives
        for change in ("seal", "trim"):
            deposed = await place.open(7, change)
            await deposed.append(entries(4))
            await deposed.append(entries(4))
            later = await place.open(8, change)
            with pytest.raises(Fenced):
                await (deposed.seal() if change == "seal" else deposed.trim(Position(7, 8)))
            assert not later.is_sealed
            assert await read_all(later) == placed(7, entries(4) * 2)
            await later.append([b"new"])

    run(subject, scenario)


@every_log
def test_a_sealed_log_is_read_and_trimmed_but_never_appended_to(subject: str) -> None:
    async def scenario(place: Place) -> None:
        log = await place.open(1)
        under_way = [log.append(entries(2, number)) for number in range(5)]
        sealing = asyncio.ensure_future(log.seal())
        await asyncio.sleep(0)
        with pytest.raises(SegmentSealed, match="successors"):
            log.append([b"late"])
        await sealing
        assert [await each for each in under_way] == [Position(1, 2 * number) for number in range(5)]
        for term in (1, 2, 3):
            if term > 1:
                log = await place.open(term)
            assert log.is_sealed
            await log.seal()
            with pytest.raises(SegmentSealed):
                log.append([b"late"])
            assert len(await read_all(log)) == 10
            assert not await log.wait_appended(log.last_confirmed)
            await log.close()
        log = await place.open(4)
        await log.trim(Position(1, 10))
        await log.close()
        assert (await place.open(5)).is_sealed

    run(subject, scenario)


@every_log
def test_trimming_gives_up_what_it_can_and_nothing_that_stays(subject: str) -> None:
    async def scenario(place: Place) -> None:
        wanted = []
        for term in (1, 2, 3):
            log = await place.open(term)
            for number in range(12):
                await log.append([*entries(2, number), b"x" * 60])
            wanted += await read_all(log, Position(term, 0))
            await log.close()
        log = await place.open(4)
        first = log.first
        assert first == Position(1, 0)
        for ledger, entry in ((1, 1), (1, 20), (2, 0), (2, 18), (1, 0), (3, 17)):
            before = Position(ledger, entry)
            await log.trim(before)
            assert log.first is not None
            assert first is not None
            assert first <= log.first <= max(before, first)
            first = log.first
            assert await read_all(log) == [each for each in wanted if each.position >= first]
        assert first.ledger == 3
        assert (log.lengths.oldest, log.last_confirmed) == (first, Position(3, 35))
        for start in (Position(0, 0), Position(1, 5), Position(2, 0)):
            with pytest.raises(EntriesTrimmed, match=str(first)) as trimmed:
                await log.read(start, 1, 1)
            assert trimmed.value.oldest == first
        await log.close()
        log = await place.open(5)
        assert log.first == first
        assert await read_all(log) == [each for each in wanted if each.position >= first]

    run(subject, scenario)


@every_log
def test_a_log_that_is_trimmed_whole_goes_on_behind_what_it_had(subject: str) -> None:
    async def scenario(place: Place) -> None:
        for term in range(1, 6):
            log = await place.open(term)
            await log.append(entries(3))
            await log.trim(log.next_position)
            await log.trim(Position(99, 0))
            assert log.last_confirmed == Position(term, 2)
            assert await log.append([b"next"]) == Position(term, 3)
            assert (await read_all(log))[-1].data == b"next"
            await log.trim(log.next_position)
            await log.close()
        log = await place.open(9)
        assert log.last_confirmed == Position(5, 3)
        assert len(log.lengths.ledgers) <= 3

    run(subject, scenario)


@every_log
def test_who_waits_is_woken_by_what_is_confirmed_and_by_the_end(subject: str) -> None:
    async def scenario(place: Place) -> None:
        log = await place.open(1)
        waiting = [asyncio.ensure_future(log.wait_appended(after)) for after in (None, Position(0, 5), Position(1, 1))]
        await asyncio.sleep(0)
        await log.append([b"one"])
        assert await waiting[0]
        assert await waiting[1]
        assert not waiting[2].done()
        await log.append(entries(2))
        assert await waiting[2]
        assert await log.wait_appended(None)
        for_ever = asyncio.ensure_future(log.wait_appended(Position(1, 2)))
        await asyncio.sleep(0)
        await log.close()
        with pytest.raises(LogStopped, match="closed by its owner"):
            await for_ever
        log = await place.open(2)
        for_ever = asyncio.ensure_future(log.wait_appended(Position(1, 2)))
        await asyncio.sleep(0)
        await log.seal()
        assert not await for_ever

    run(subject, scenario)


@every_log
def test_what_is_too_large_or_too_much_changes_nothing(subject: str) -> None:
    async def scenario(place: Place) -> None:
        log = await place.open(1)
        assert log.group_bytes_max == GROUP_BYTES_MAX
        for group in ([b"x" * (GROUP_BYTES_MAX + 1)], [], [b""] * (GROUP_ENTRIES_MAX + 1)):
            with pytest.raises(GroupTooLarge):
                log.append(group)
        await log.append([b"x" * GROUP_BYTES_MAX])
        await log.append([b""] * 10)
        assert log.next_position == Position(1, 11)

    run(subject, scenario)


@every_log
def test_appends_that_wait_are_bounded(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert WAITING_BYTES_MAX > 100 * GROUP_BYTES_MAX
    monkeypatch.setattr("txn.segment.log.owned.WAITING_BYTES_MAX", 1_000)

    async def scenario(place: Place) -> None:
        log = await place.open(1)
        under_way = [log.append([b"x" * 436]), log.append([b"x" * 436])]
        with pytest.raises(SegmentBusy, match="WAITING_BYTES_MAX"):
            log.append([b""])
        await asyncio.gather(*under_way)
        assert await log.append([b"x" * 2_000]) == Position(1, 2)

    run(subject, scenario)


@every_log
def test_ledgers_are_bounded_and_trimming_makes_room(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txn.segment.log.owned.LEDGERS_MAX", 2)

    async def scenario(place: Place) -> None:
        for term in (1, 2):
            log = await place.open(term)
            await log.append([b"x" * 300])
            await log.append([b"x" * 300])
            await log.close()
        log = await place.open(3)
        with pytest.raises(SegmentFull, match="LEDGERS_MAX"):
            log.append([b"more"])
        await log.trim(Position(2, 1))
        await log.trim(Position(2, 2))
        await log.append([b"more"])

    run(subject, scenario)


@every_log
def test_a_closed_log_says_so(subject: str) -> None:
    async def scenario(place: Place) -> None:
        log = await place.open(1)
        await log.append([b"one"])
        await log.close()
        await log.close()
        with pytest.raises(LogStopped, match="closed by its owner"):
            log.append([b"two"])
        for refused in (log.read(Position(1, 0), 1, 1), log.seal(), log.trim(Position(1, 0)), log.wait_appended(None)):
            with pytest.raises(LogStopped, match="closed by its owner"):
                await refused

    run(subject, scenario)


@every_log
def test_a_close_decides_nothing_that_is_under_way(subject: str) -> None:
    async def scenario(place: Place) -> None:
        log = await place.open(1)
        await log.append([b"confirmed"])
        groups = [entries(2, 10 * number) for number in range(20)]
        under_way = [log.append(group) for group in groups]
        await asyncio.sleep(0)
        await log.close()
        outcomes = await asyncio.gather(*under_way, return_exceptions=True)
        confirmed = [place for place in outcomes if isinstance(place, Position)]
        assert outcomes[: len(confirmed)] == confirmed
        assert all(isinstance(each, LogStopped) for each in outcomes[len(confirmed) :])
        found = [each.data for each in await read_all(await place.open(2))]
        kept = [list(chain([b"confirmed"], *groups[:count])) for count in range(len(confirmed), len(groups) + 1)]
        assert found in kept

    run(subject, scenario)


@every_log
def test_segments_are_kept_apart_and_deleted_alone(subject: str) -> None:
    async def scenario(place: Place) -> None:
        names = [SEGMENT, OTHER, "..", "a/b", "a%2Fb", "x" * 300, "x" * 301, "ü:*"]
        for number, name in enumerate(names):
            log = await place.open(1, name)
            await log.append([b"%d" % number])
            await log.close()
        await (await place.logs()).delete(SEGMENT, 2)
        for number, name in enumerate(names[1:], 1):
            assert await read_all(await place.open(2, name)) == placed(1, [b"%d" % number])
        anew = await place.open(3)
        assert (anew.first, anew.last_confirmed) == (None, None)
        await anew.append([b"anew"])
        assert await read_all(anew) == placed(3, [b"anew"])

    run(subject, scenario)
