"""Publishing: positions, order, intents before entries, and what readers see of it."""

from __future__ import annotations

import asyncio

import pytest
from buffer_stage import (
    ABORTED,
    COMMITTED,
    EVERYTHING,
    Lacks,
    Stage,
    both_stores,
    confirmed,
    play,
    txn,
)

from metastore.providers.memory import Part
from support.world import settle
from txn.model.errors import TxnConflict
from txn.model.position import Position
from txn.segment.entry import Entry


@both_stores
@pytest.mark.parametrize("local", [False, True], ids=["stored", "local"])
def test_the_order_of_the_calls_is_the_order_in_the_log(lacks: Lacks, local: bool) -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        first = [owner.publish("a"), owner.publish("b", one), owner.publish("c", two), owner.publish("d", one)]
        second = [owner.publish(text, txn_id) for text, txn_id in [("e", None), ("f", two), ("g", None)]]
        term = owner.grant.term
        assert await confirmed(first + second) == [Position(term, entry) for entry in range(7)]
        assert await owner.texts() == ["a"]
        await stage.decide(one, COMMITTED)
        assert await owner.texts() == ["a", "b"]
        await stage.decide(two, ABORTED)
        assert await owner.texts() == ["a", "b", "d", "e", "g"]
        await settle()
        assert await stage.records() == []
        assert await stage.aborted() == [two]
        assert await stage.applied(one)
        assert await stage.applied(two)
        await owner.close()

    play(scenario, lacks, local=local)


def test_the_intent_is_durable_before_the_entry_is_appended() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        gate = owner.process.script.hold("transact", prefix="/txn")
        sends = [owner.publish("a", one), owner.publish("plain")]
        await gate.arrived()
        assert owner.log.next_position.entry == 0
        assert (await stage.records(), owner.bound) == ([], 0)
        gate.release()
        first, plain = await confirmed(sends)
        (record,) = await stage.records()
        assert (record.position, record.last, record.term) == (first, None, owner.grant.term)
        assert (plain.entry, owner.bound) == (1, 0)
        await owner.close()

    play(scenario)


@pytest.mark.parametrize("local", [False, True], ids=["stored", "local"])
def test_each_message_is_appended_once_and_an_outcome_appends_nothing(local: bool) -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        await confirmed([owner.publish(str(number), [one, two, None][number % 3]) for number in range(30)])
        await stage.decide(one, COMMITTED)
        await stage.decide(two, ABORTED)
        owner = await stage.succeed(owner)
        assert len(await owner.texts()) == 20
        assert owner.log.first is not None
        entries = await owner.log.read(owner.log.first, 1_000, EVERYTHING)
        assert [Entry.decode(each.data).payload for each in entries] == [b"%d" % number for number in range(30)]
        await owner.close()

    play(scenario, local=local)


def test_h20_one_record_stands_for_all_messages_of_a_transaction_that_are_appended_together() -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        await confirmed([owner.publish(str(number), [one, two, None][number % 3]) for number in range(30)])
        records = sorted((await stage.records()), key=lambda each: each.position)
        assert [(each.position.entry, each.last and each.last.entry) for each in records] == [(0, 27), (1, 28)]
        await stage.decide(one, COMMITTED)
        await stage.decide(two, COMMITTED)
        assert await owner.texts() == [str(number) for number in range(30)]
        await owner.close()

    play(scenario)


def test_a_message_of_a_transaction_that_is_decided_or_unknown_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        await stage.decide(one, COMMITTED)
        await stage.decide(two, ABORTED)
        for each in (one, two, txn(3)):
            with pytest.raises(TxnConflict, match=str(each)):
                await owner.publish("late", each)
        await settle()
        assert owner.buffer.stats.in_hand == owner.outcomes.count == 0
        await owner.publish("plain")
        assert await owner.texts() == ["plain"]
        await owner.close()

    play(scenario)


def test_h14_a_producer_waits_for_the_look_at_its_own_transaction_and_nobody_elses() -> None:
    async def scenario(stage: Stage) -> None:
        (two,) = await stage.begin(2)
        owner = await stage.own()
        await owner.publish("o0", two, "other", 0)
        owner.process.store.line.cut(Part.WATCHES)
        (one,) = await stage.begin(1)
        gate = owner.process.script.hold("get", prefix="/txn/md_0_1")
        mine = [owner.publish("m1", one, "mine", 1), owner.publish("m2", None, "mine", 2)]
        mine += [owner.publish("m3", two, "mine", 3)]
        other = [owner.publish("o1", None, "other", 1), owner.publish("o2", two, "other", 2)]
        await confirmed(other)
        assert not any(each.done() for each in mine)
        gate.release()
        positions = await confirmed(mine)
        assert positions == sorted(positions)
        owner.process.store.line.mend()
        await stage.decide(one, COMMITTED)
        await stage.decide(two, COMMITTED)
        assert await owner.texts() == ["o0", "o1", "o2", "m1", "m2", "m3"]
        await owner.close()

    play(scenario)


def test_who_stops_waiting_takes_nothing_back_and_disturbs_nobody() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()

        async def wait(text: str, number: int) -> None:
            await owner.publish(text, one, "p", number)

        tasks = [asyncio.ensure_future(wait(text, number)) for number, text in enumerate("abc")]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(tasks[0], tasks[2])
        assert tasks[1].cancelled()
        again = await owner.publish("b", one, "p", 1)
        assert again.is_duplicate
        await stage.decide(one, COMMITTED)
        assert await owner.texts() == ["a", "b", "c"]
        await owner.close()

    play(scenario)


def test_a_round_whose_waiters_are_all_gone_is_written_all_the_same() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        gate = owner.process.script.hold("transact", prefix="/txn")
        sends = [owner.publish(text, one, "p", number) for number, text in enumerate("abc")]
        await gate.arrived()
        for send in sends:
            send.cancel()
        gate.release()
        await confirmed([owner.publish("d", one, "p", 3)])
        await stage.decide(one, COMMITTED)
        assert await owner.texts() == ["a", "b", "c", "d"]
        await owner.close()

    play(scenario)


def test_reading_is_woken_by_entries_and_by_decisions() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        visibility = owner.buffer.visibility
        start = visibility.bound
        waiting = owner.process.start(visibility.wait_moved(start))
        await owner.publish("a")
        assert await waiting
        waiting = owner.process.start(visibility.wait_moved(visibility.bound))
        await confirmed([owner.publish("b", one), owner.publish("c")])
        await settle()
        assert not waiting.done()
        await stage.decide(one, ABORTED)
        assert waiting.done()
        assert await waiting
        assert await owner.texts() == ["a", "c"]
        await owner.close()

    play(scenario)
