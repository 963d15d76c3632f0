"""Publishing, and what comes between: decisions, failures, lost answers, a full disk, the end of the log."""

from __future__ import annotations

import errno

import pytest
from buffer_stage import (
    ABORTED,
    COMMITTED,
    Lacks,
    Stage,
    both_stores,
    confirmed,
    decide,
    only_failed,
    play,
    txn,
)

from metastore.faults import Faults
from metastore.interface import OutcomeUnknown, StoreFull, Unavailable
from support.world import settle
from txn.model.errors import SegmentUnavailable, TxnConflict
from txn.model.position import Position
from txn.segment.entry import VOID
from txn.segment.errors import LogStopped, SegmentFull

CUT = OutcomeUnknown("the connection broke")


def put_of(lacks: Lacks) -> str:
    """How operation records are put."""
    return "put" if lacks else "transact"


@both_stores
@pytest.mark.parametrize("state", [COMMITTED, ABORTED])
def test_h8_a_message_whose_transaction_is_decided_while_its_intent_is_under_way(lacks: Lacks, state: object) -> None:
    async def scenario(stage: Stage) -> None:
        assert state in (COMMITTED, ABORTED)
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await owner.publish("early", one)
        gate = owner.process.script.hold(put_of(lacks), prefix="/txn-op")
        sends = [owner.publish("late", one), owner.publish("plain")]
        await gate.arrived()
        await decide(stage.outside, one, ABORTED if state is ABORTED else COMMITTED)
        await settle()
        assert owner.bound == 1, "the decision counts at once"
        gate.release()
        await settle()
        assert only_failed(sends) == [TxnConflict, None]
        assert sends[1].result().position == Position(owner.grant.term, 2)
        assert await owner.texts() == ["plain"] if state is ABORTED else ["early", "plain"]
        assert (await stage.records(), owner.bound) == ([], 3)
        await owner.close()

    play(scenario, lacks)


@both_stores
def test_an_intent_that_was_durable_when_the_decision_came_leaves_no_record(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        gate = owner.process.script.hold(put_of(lacks), prefix="/txn-op", after=True)
        send = owner.publish("late", one)
        await gate.arrived()
        assert len(await stage.records()) == 1
        await decide(stage.outside, one, ABORTED)
        await settle()
        gate.release()
        await settle()
        assert only_failed([send]) == [TxnConflict]
        assert (await stage.records(), await stage.aborted(), owner.bound) == ([], [], 0)
        assert await confirmed([owner.publish("plain")]) == [Position(owner.grant.term, 1)]
        assert await owner.texts() == ["plain"]
        await owner.close()

    play(scenario, lacks)


@both_stores
@pytest.mark.parametrize("error", [Unavailable("away"), CUT, StoreFull("full")])
def test_h14_an_intent_that_fails_for_a_while_keeps_its_producers_order(lacks: Lacks, error: Exception) -> None:
    async def scenario(stage: Stage) -> None:
        assert isinstance(error, Unavailable | OutcomeUnknown | StoreFull)
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        await confirmed([owner.publish("a", one), owner.publish("b", two)])
        owner.process.script.fail(put_of(lacks), error, prefix="/txn-op/md_0_1", after=error is CUT)
        names = [("m1", None, 1), ("m2", one, 2), ("m3", two, 3), ("m4", None, 4)]
        mine = [owner.publish(text, txn_id, "mine", number) for text, txn_id, number in names]
        other = [owner.publish("o1", two, "other", 1), owner.publish("o2", None, "other", 2)]
        await settle()
        kind = SegmentFull if isinstance(error, StoreFull) else SegmentUnavailable
        assert only_failed(mine) == [None, kind, kind, kind]
        assert only_failed(other) == [None, None]
        positions = await confirmed([owner.publish(text, txn_id, "mine", number) for text, txn_id, number in names[1:]])
        assert positions == sorted(positions)
        again = await owner.publish("m1", None, "mine", 1)
        assert again.is_duplicate
        await stage.decide(one, COMMITTED)
        await stage.decide(two, COMMITTED)
        assert await owner.texts() == ["a", "b", "m1", "o1", "o2", "m2", "m3", "m4"]
        assert (await stage.records(), owner.buffer.stats.in_hand) == ([], 0)
        await owner.close()

    play(scenario, lacks)


def test_those_who_wait_behind_a_refused_message_of_the_same_producer_are_refused_with_it() -> None:
    async def scenario(stage: Stage) -> None:
        (one,), two = await stage.begin(1), txn(2)
        owner = await stage.own()
        await owner.publish("a", one)
        gate = owner.process.script.hold("transact", prefix="/txn-op/md_0_1")
        send = owner.publish("m1", one, "mine", 1)
        await gate.arrived()
        looks = owner.process.script.hold("get", prefix="/txn/md_0_2")
        behind = [owner.publish("m2", None, "mine", 2), owner.publish("m3", two, "mine", 3)]
        behind += [owner.publish("m4", None, "mine", 4)]
        other = owner.publish("o", None, "other", 1)
        owner.process.script.fail("transact", Unavailable("away"), prefix="/txn-op/md_0_1", after=False)
        gate.release()
        await settle()
        assert only_failed([send, *behind, other]) == [SegmentUnavailable] * 4 + [None]
        looks.release()
        assert owner.buffer.stats.waiting == 0
        await owner.close()

    play(scenario)


def test_a_transaction_without_any_entry_holds_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        owner.process.script.fail("transact", Unavailable("away"), prefix="/txn-op/md_0_1")
        sends = [owner.publish("a", one), owner.publish("b", two), owner.publish("c")]
        await settle()
        assert only_failed(sends) == [SegmentUnavailable, None, None]
        assert (owner.bound, owner.buffer.stats.oldest_open) == (1, two)
        await stage.decide(two, COMMITTED)
        assert owner.bound == 3
        await owner.publish("d", one)
        assert (owner.bound, owner.buffer.stats.oldest_open) == (3, one)
        await owner.close()

    play(scenario)


def test_where_the_first_of_a_transactions_messages_is_refused_the_horizon_is_at_the_first_that_is_not() -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        owner.process.script.fail("transact", Unavailable("away"), prefix="/txn-op/md_0_1")
        sends = [owner.publish("a", one, "p", 1), owner.publish("b", two, "p", 2), owner.publish("c", None, "q", 1)]
        sends += [owner.publish("d", two, "q", 2)]
        await settle()
        assert only_failed(sends) == [SegmentUnavailable, SegmentUnavailable, None, None]
        assert owner.bound == 3
        await owner.close()

    play(scenario)


@both_stores
def test_a_full_disk_takes_back_what_was_appended_and_what_was_announced(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        one, two, three = await stage.begin(1, 2, 3)
        owner = await stage.own()
        term = owner.grant.term
        await confirmed([owner.publish("a", one), owner.publish("z", two)])
        await stage.decide(two, COMMITTED)
        await owner.publish("y", three)
        chunks = owner.process.script.hold(put_of(lacks), prefix="/segments/")
        first = [owner.publish("b", one, "p", 1), owner.publish("c", None, "q", 1)]
        await chunks.arrived()
        intents = owner.process.script.hold(put_of(lacks), prefix="/txn-op")
        second = [owner.publish("d", three, "r", 1), owner.publish("e", None, "p", 2)]
        await intents.arrived()
        waiting = [owner.publish("f", None, "q", 2), owner.publish("g", None, "new", 1)]
        owner.process.script.fail(put_of(lacks), StoreFull("no space"), prefix="/segments/")
        chunks.release()
        await settle()
        assert only_failed(first) == [SegmentFull, SegmentFull]
        assert [each.done() for each in (*second, *waiting)] == [False, False, True, False]
        intents.release()
        await settle()
        assert only_failed([*second, *waiting]) == [SegmentUnavailable, SegmentUnavailable, SegmentFull, None]
        # What was announced is void for ever: those who send again get other positions, and nobody is pinned there.
        assert waiting[1].result().position == Position(term, 7)
        names = [("b", one, "p", 1), ("c", None, "q", 1), ("d", three, "r", 1)]
        names += [("e", None, "p", 2), ("f", None, "q", 2)]
        again = await confirmed([owner.publish(*each) for each in names])
        assert [each.entry for each in again] == [8, 9, 10, 11, 12]
        raw = await owner.log.read(Position(term, 3), 4, 1_000)
        assert [each.data for each in raw] == [VOID.encode()] * 4
        await stage.decide(one, COMMITTED)
        assert (owner.bound, owner.buffer.stats.oldest_open) == (2, three)
        await stage.decide(three, ABORTED)
        assert await owner.texts() == ["a", "z", "g", "b", "c", "e", "f"]
        assert await stage.records() == []
        await owner.close()

    play(scenario, lacks)


@both_stores
def test_after_a_full_disk_a_transaction_that_has_no_entry_left_holds_nothing(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        owner.process.script.fail(put_of(lacks), StoreFull("no space"), prefix="/segments/")
        send = owner.publish("a", one)
        await settle()
        assert only_failed([send]) == [SegmentFull]
        assert (owner.buffer.stats.open, len(await stage.records())) == (0, 1)
        assert await confirmed([owner.publish("b")]) == [Position(owner.grant.term, 1)]
        assert await owner.texts() == ["b"]
        await stage.decide(one, ABORTED)
        assert (await stage.records(), await stage.aborted()) == ([], [])
        await owner.close()

    play(scenario, lacks)


@both_stores
def test_a_log_that_stops_ends_the_buffer_and_the_next_owner_finds_it_all_out(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await confirmed([owner.publish("a", one), owner.publish("b")])
        reader = owner.process.start(owner.buffer.visibility.wait_moved(owner.buffer.visibility.bound))
        owner.process.script.fail(put_of(lacks), OutcomeUnknown("cut"), prefix="/segments/", times=None)
        owner.process.script.fail("get", Unavailable("away"), prefix="/segments/", times=None)
        sends = [owner.publish("c", one), owner.publish("d")]
        for _ in range(40):
            await stage.world.pass_ms(5_000)
        assert only_failed(sends) == [LogStopped, LogStopped]
        with pytest.raises(SegmentUnavailable):
            await reader
        with pytest.raises(SegmentUnavailable):
            owner.publish("e")
        await owner.buffer.wait_ended()
        owner.process.script.clear()
        successor = await stage.succeed(owner)
        assert successor.buffer.visibility.bound == Position(owner.grant.term, 0)
        await stage.decide(one, COMMITTED)
        assert await successor.texts() == ["a", "b"]
        assert await stage.records() == []
        await successor.close()

    play(scenario, lacks)


def test_a_fault_within_publishing_ends_the_buffer_and_answers_everybody() -> None:
    class Broken(Faults):
        def reach(self, point: str) -> None:
            if point == "txn.publish.intent.after":
                raise OSError(errno.EIO, point)

    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own(faults=Broken())
        sends = [owner.publish("a", one), owner.publish("b")]
        await settle()
        assert only_failed(sends) == [SegmentUnavailable, SegmentUnavailable]
        await owner.buffer.wait_ended()
        successor = await stage.succeed(owner)
        assert await successor.texts() == []
        await stage.decide(one, ABORTED)
        assert (await stage.records(), await stage.aborted()) == ([], [])
        await successor.close()

    play(scenario)


def test_while_the_store_is_away_publishing_fails_or_waits_and_goes_on_afterwards() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await owner.publish("a", one)
        owner.process.store.line.cut()
        (two,) = await stage.begin(2)
        known, unknown, plain = owner.publish("b", one), owner.publish("c", two), owner.publish("d", None, "p")
        await decide(stage.outside, one, COMMITTED)
        with pytest.raises(SegmentUnavailable):
            await known
        assert (await plain).position == Position(owner.grant.term, 2)
        assert (unknown.done(), owner.bound) == (False, 0)
        owner.process.store.line.mend()
        while not unknown.done():
            await stage.world.pass_ms(1_000)
        await decide(stage.outside, two, COMMITTED)
        while await stage.records():
            await stage.world.pass_ms(1_000)
        assert await owner.texts() == ["a", "d", "c"]
        await owner.close()

    play(scenario, local=True)
