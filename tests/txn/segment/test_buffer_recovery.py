"""Taking over: what is known when `recover` returns, and what it takes."""

from __future__ import annotations

import asyncio

import pytest
from buffer_stage import (
    ABORTED,
    COMMITTED,
    SEGMENT,
    SESSION_OVER_MS,
    Lacks,
    Stage,
    both_stores,
    confirmed,
    decide,
    message,
    play,
    txn,
)

from metastore.interface import Unavailable
from support.world import settle
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TooManyOpenTransactions, TooManyOperations
from txn.model.position import Position
from txn.segment.buffer import BufferOptions
from txn.segment.errors import GroupTooLarge, SegmentBusy, SegmentSealed

on_both_logs = pytest.mark.parametrize("local", [False, True], ids=["stored", "local"])


@on_both_logs
@both_stores
def test_h3_uncommitted_entries_are_hidden_after_a_restart_though_nothing_was_ever_decided(
    lacks: Lacks, local: bool
) -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        first = await confirmed([owner.publish("a", one), owner.publish("b")])
        successor = await stage.succeed(owner)
        assert (successor.buffer.visibility.bound, await successor.texts()) == (first[0], [])
        await successor.publish("c")
        third = await stage.succeed(successor)
        assert (third.buffer.visibility.bound, await third.texts()) == (first[0], [])
        await stage.decide(one, COMMITTED)
        assert await third.texts() == ["a", "b", "c"]
        await third.close()

    play(scenario, lacks, local=local)


@both_stores
def test_h4_nothing_is_to_be_had_before_all_is_known(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        one, two, three = await stage.begin(1, 2, 3)
        owner = await stage.own()
        names = [("a", one), ("b", two), ("c", three), ("d", None)]
        await confirmed([owner.publish(text, txn_id) for text, txn_id in names])
        await owner.crash()
        await decide(stage.outside, one, ABORTED)
        await decide(stage.outside, two, COMMITTED)
        await stage.world.pass_ms(SESSION_OVER_MS)
        successor = await stage.claim()
        gate = successor.process.script.hold("get", prefix="/txn/")
        aborting = successor.process.script.hold("put" if lacks else "transact", prefix=paths.aborted_path(SEGMENT))
        recovering = successor.process.start(successor.recover())
        await gate.arrived(2)
        await settle()
        assert not recovering.done()
        gate.release()
        await recovering
        # The outcome counts although nothing is settled yet, and the bound is exact at once.
        assert await successor.texts() == ["b"]
        assert successor.buffer.visibility.bound == Position(owner.grant.term, 2)
        assert await stage.aborted() == []
        aborting.release()
        await settle()
        assert (await stage.aborted(), len(await stage.records())) == ([one], 1)
        await stage.decide(three, ABORTED)
        assert (await successor.texts(), await stage.records()) == (["b", "d"], [])
        await successor.close()

    play(scenario, lacks)


def test_h11_recovery_outlasts_a_store_that_is_away() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await confirmed([owner.publish("a", one), owner.publish("b")])
        await owner.crash()
        await decide(stage.outside, one, ABORTED)
        await stage.world.pass_ms(SESSION_OVER_MS)
        successor = await stage.claim()
        successor.process.script.fail("watch", Unavailable("away"), times=5)
        recovering = successor.process.start(successor.recover())
        while not recovering.done():
            await stage.world.pass_ms(2_000)
        await recovering
        assert await successor.texts() == ["b"]
        await successor.close()

    play(scenario)


def test_a_recovery_that_fails_lets_go_of_everything() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await owner.publish("a", one)
        await owner.crash()
        await stage.world.pass_ms(SESSION_OVER_MS)
        successor = await stage.claim()
        successor.process.script.fail("get", Unavailable("away"), prefix="/segments/")
        with pytest.raises(SegmentUnavailable):
            await successor.recover()
        assert successor.outcomes.count == 0
        await successor.recover()
        assert await successor.texts() == []
        await successor.close()

    play(scenario)


@both_stores
def test_an_intent_whose_entry_never_came_holds_nobody_after_a_restart(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await owner.publish("a")
        gate = owner.process.script.hold("put" if lacks else "transact", prefix="/segments/")
        send = owner.publish("b", one)
        await gate.arrived()
        assert len(await stage.records()) == 1
        successor = await stage.succeed(owner)
        send.cancel()
        assert await successor.texts() == ["a"]
        assert successor.buffer.stats.open == 0
        await successor.publish("c")
        assert await successor.texts() == ["a", "c"]
        await stage.decide(one, ABORTED)
        assert (await stage.records(), await stage.aborted()) == ([], [])
        await successor.close()

    play(scenario, lacks)


@both_stores
def test_an_abort_that_was_half_settled_keeps_the_range_it_had(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        for text in ("a", "b"):
            await owner.publish(text, one)
        await owner.publish("c")
        gate = owner.process.script.hold("delete" if lacks else "transact", prefix="/txn-op")
        await decide(stage.outside, one, ABORTED)
        await gate.arrived()
        (last,) = [each.key for each in await owner.operations.of_transaction(one) if each.operation.position.entry]
        await stage.outside.delete(last, partition_key=str(one))
        successor = await stage.succeed(owner)
        await settle()
        assert await stage.records() == []
        await successor.buffer.trim(Position(owner.grant.term, 1))
        assert (await stage.aborted(), await successor.texts()) == ([one], ["c"])
        await successor.close()

    play(scenario, lacks)


@on_both_logs
def test_what_is_sent_again_is_known_by_the_next_owner(local: bool) -> None:
    async def scenario(stage: Stage) -> None:
        one, two, three = await stage.begin(1, 2, 3)
        options = BufferOptions(snapshot_every_entries=3)
        owner = await stage.own(options)
        sends = [("a", None), ("b", one), ("c", two), ("d", three), ("e", None)]
        for number, (text, txn_id) in enumerate(sends):
            await owner.publish(text, txn_id, "p", number)
        await decide(stage.outside, one, COMMITTED)
        await decide(stage.outside, two, ABORTED)
        while len(await stage.records()) > 1:
            await stage.world.pass_ms(1_000)
        owner = await stage.succeed(owner, options)
        for number in (0, 1, 4):
            assert (await owner.buffer.publish(message("x", None, "p", number))).is_duplicate
        assert (await owner.publish("x", three, "p", 3)).is_duplicate
        with pytest.raises(SegmentBusy, match="another transaction"):
            owner.publish("x", None, "p", 3)
        assert not (await owner.publish("c again", None, "p", 2)).is_duplicate
        await stage.decide(three, ABORTED)
        assert not (await owner.publish("d again", None, "p", 3)).is_duplicate
        await owner.close()
        owner = await stage.own(options)
        for number in range(5):
            assert (await owner.buffer.publish(message("x", None, "p", number))).is_duplicate
        assert await owner.texts() == ["a", "b", "e", "c again", "d again"]
        await owner.close()

    play(scenario, local=local)


def test_a_message_that_was_not_confirmed_answers_its_duplicates_when_it_is() -> None:
    async def scenario(stage: Stage) -> None:
        owner = await stage.own()
        gate = owner.process.script.hold("transact", prefix="/segments/")
        first, again = owner.publish("a", None, "p", 1), owner.publish("a", None, "p", 1)
        await gate.arrived()
        assert not again.done()
        gate.release()
        assert (await first).position == (await again).position
        assert (await again).is_duplicate
        assert not (await first).is_duplicate
        await owner.close()

    play(scenario)


def test_publishing_waits_when_the_next_owner_would_have_too_much_to_read() -> None:
    async def scenario(stage: Stage) -> None:
        owner = await stage.own(BufferOptions(snapshot_every_entries=2, tail_entries_max=4, queue_entries_max=3))
        snapshots = owner.process.script.hold("transact", prefix=paths.producers_key(SEGMENT))
        for number in range(4):
            await owner.publish("a", None, "p", number)
        waiting = [owner.publish("b", None, "p", number) for number in range(4, 7)]
        with pytest.raises(SegmentBusy, match="queue_entries_max"):
            owner.publish("c", None, "p", 7)
        await settle()
        assert not any(each.done() for each in waiting)
        snapshots.release()
        await confirmed(waiting)
        await owner.close()

    play(scenario)


def test_a_sealed_segment_settles_its_transactions_and_then_says_that_no_more_will_come() -> None:
    async def scenario(stage: Stage) -> None:
        (one,), two = await stage.begin(1), txn(2)
        owner = await stage.own()
        await owner.publish("a", one)
        gate = owner.process.script.hold("get", prefix=f"/txn/{two}")
        before, aside = owner.publish("b", None, "p", 1), owner.publish("c", two, "q", 1)
        await owner.buffer.seal()
        assert (await before).position is not None
        assert isinstance(aside.exception(), SegmentSealed)
        with pytest.raises(SegmentSealed):
            owner.publish("d")
        assert (await owner.buffer.publish(message("b", None, "p", 1))).is_duplicate
        waiting = owner.process.start(owner.buffer.visibility.wait_moved(owner.buffer.visibility.bound))
        await settle()
        assert not waiting.done()
        gate.release()
        owner2 = await stage.succeed(owner)
        with pytest.raises(SegmentUnavailable):
            await waiting
        await stage.decide(one, COMMITTED)
        visibility = owner2.buffer.visibility
        assert await owner2.texts() == ["a", "b"]
        assert not await visibility.wait_moved(visibility.bound)
        assert await stage.records() == []
        with pytest.raises(SegmentSealed):
            owner2.publish("d")
        await owner2.close()

    play(scenario)


def test_limits_are_named() -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own(BufferOptions(open_max=1, operations_max=2))
        sends = [owner.publish("a", one), owner.publish("b", one)]
        with pytest.raises(TooManyOperations, match="operations_max"):
            owner.publish("c", one)
        with pytest.raises(TooManyOpenTransactions, match="open_max"):
            owner.publish("c", two)
        with pytest.raises(GroupTooLarge, match="group_bytes_max"):
            owner.buffer.publish(message("x" * owner.log.group_bytes_max))
        await confirmed(sends)
        await stage.decide(one, COMMITTED)
        await owner.publish("c", two)
        await stage.decide(two, COMMITTED)
        assert await owner.texts() == ["a", "b", "c"]
        await owner.close()

    play(scenario)


def test_a_buffer_that_is_closed_answers_everybody_and_leaves_the_rest_to_the_next() -> None:
    async def scenario(stage: Stage) -> None:
        (one,), two = await stage.begin(1), txn(2)
        owner = await stage.own()
        await owner.publish("a", one)
        looks = owner.process.script.hold("get", prefix=f"/txn/{two}")
        intents = owner.process.script.hold("transact", prefix="/txn-op")
        sends = [owner.publish("b", one, "p", 1), owner.publish("c", two, "q", 1), owner.publish("d", None, "r", 1)]
        await intents.arrived()
        await owner.close()
        assert all(isinstance(each.exception(), SegmentUnavailable) for each in sends)
        assert not looks.is_open
        successor = await stage.own()
        await stage.decide(one, COMMITTED)
        assert (await successor.texts(), await stage.records()) == (["a"], [])
        await successor.close()
        with pytest.raises(SegmentUnavailable):
            await successor.buffer.seal()
        await asyncio.sleep(0)

    play(scenario)
