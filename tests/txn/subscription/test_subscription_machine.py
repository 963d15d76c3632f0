"""Transactions, consumers and owners that come and go, beside the model; at the end a fresh consumer gets the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from subscription_model import AcksModel
from subscription_world import (
    EXCLUSIVE,
    SHARED,
    Owner,
    abort,
    begin,
    commit,
    decide_silently,
    every_store,
    records,
    take_all,
)

from support.world import World, settle
from txn.model.errors import TxnConflict
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.subscription import Consumer

OPEN_MAX = 4
T = TypeVar("T")


class SubscriptionMachine(RuleBasedStateMachine):
    """One subscription through many owners."""

    lacks: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.sizes: dict[Position, int] = {}
        self.model = AcksModel(self.sizes)
        self.open: list[TxnId] = []
        self.begun = 0
        self.nobodys: set[TxnId] = set()
        self.consumers: list[Consumer] = []

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def start(self) -> None:
        async def work() -> None:
            self.world = World(self.lacks)
            self.owner = await Owner.take(self.world)
            self.subscription = await self.owner.create()

        self.do(work())

    # -- what there is

    @rule(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def publish(self, sizes: list[int]) -> None:
        for size in sizes:
            (position,) = self.do(self.owner.publish(1, messages=size))
            self.sizes[position] = size

    @rule()
    def publish_what_is_nobodys(self) -> None:
        self.do(self.owner.publish_void())

    @precondition(lambda self: len(self.open) < OPEN_MAX)
    @rule()
    def begin(self) -> None:
        self.begun += 1
        self.open.append(self.do(begin(self.world, self.begun)))

    # -- acknowledging

    @precondition(lambda self: self.sizes)
    @rule(data=st.data(), is_cumulative=st.sampled_from([False, False, False, True]))
    def acknowledge(self, data: st.DataObject, is_cumulative: bool) -> None:
        txn_id = data.draw(st.sampled_from([None, *self.open, *self.open]))
        position = data.draw(st.sampled_from(sorted(self.sizes)))
        size = self.sizes[position]
        batch = tuple(data.draw(st.lists(st.integers(0, size - 1), max_size=size, unique=True)))
        is_cumulative = is_cumulative and all(consumer.kind is not SHARED for consumer in self.consumers)
        ack = Ack(position, is_cumulative, batch, size)
        try:
            self.do(self.subscription.acknowledge([ack], txn_id))
        except TxnConflict:
            assert not self.model.may(txn_id, ack), f"{txn_id} {ack} is refused for nothing"
        else:
            assert self.model.may(txn_id, ack), f"{txn_id} {ack} takes what is another's"
            self.model.acknowledge(txn_id, ack)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), is_committed=st.booleans())
    def decide(self, data: st.DataObject, is_committed: bool) -> None:
        txn_id = self._ended(data, is_committed)
        self.do((commit if is_committed else abort)(self.world, txn_id))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), is_committed=st.booleans(), turns=st.integers(0, 40))
    def decide_and_crash(self, data: st.DataObject, is_committed: bool, turns: int) -> None:
        txn_id = self._ended(data, is_committed)
        state = TxnState.COMMITTED if is_committed else TxnState.ABORTED

        async def work() -> None:
            await decide_silently(self.world, txn_id, state)
            for _ in range(turns):
                await asyncio.sleep(0)
            await self._replace_owner()

        self.do(work())

    def _ended(self, data: st.DataObject, is_committed: bool) -> TxnId:
        txn_id = data.draw(st.sampled_from(self.open))
        self.open.remove(txn_id)
        self.model.end(txn_id, is_committed=is_committed)
        return txn_id

    @rule()
    def crash(self) -> None:
        self.do(self._replace_owner())

    async def _replace_owner(self) -> None:
        self.consumers.clear()
        await self.owner.die()
        self.owner = await Owner.take(self.world)
        self.subscription = await self.owner.recover()

    # -- delivering

    @precondition(lambda self: not self.consumers or self.consumers[0].kind is SHARED)
    @rule(kind=st.sampled_from([SHARED, EXCLUSIVE]))
    def attach(self, kind: Any) -> None:
        if len(self.consumers) < 3 and (kind is SHARED or not self.consumers):
            self.do(self._attach(kind))

    async def _attach(self, kind: Any) -> None:
        self.consumers.append(self.subscription.attach(f"consumer-{len(self.consumers)}", kind))

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), permits=st.integers(1, 10))
    def receive(self, data: st.DataObject, permits: int) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        given = self.do(take_all(consumer, permits))
        assert {delivery.position for delivery in given} <= set(self.model.to_deliver())

    @precondition(lambda self: self.consumers and self.sizes)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        positions = data.draw(st.lists(st.sampled_from(sorted(self.sizes)), max_size=4))

        async def work() -> None:
            consumer.negative_acknowledge(positions)
            await settle()

        self.do(work())

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def close_consumer(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        self.do(consumer.close())

    @precondition(lambda self: self.consumers)
    @rule()
    def everything_that_is_to_be_delivered_is_with_somebody(self) -> None:
        async def work() -> None:
            for consumer in self.consumers:
                await take_all(consumer)

        self.do(work())
        assert sorted(self.subscription._backlog.outstanding) == self.model.to_deliver()

    @invariant()
    def what_is_counted_is_what_is_held(self) -> None:
        if hasattr(self, "subscription"):
            held = {txn_id for txn_id, messages in self.model.held.items() if messages}
            assert held <= set(self.subscription.stats.pending)

    def teardown(self) -> None:
        try:
            if hasattr(self, "subscription"):
                self.do(self._finish())
        finally:
            self.runner.close()

    async def _finish(self) -> None:
        for number, txn_id in enumerate(self.open):
            self.model.end(txn_id, is_committed=number % 2 == 0)
            await (commit if number % 2 == 0 else abort)(self.world, txn_id)
        await self._replace_owner()
        found = await take_all(self.subscription.attach("fresh", EXCLUSIVE))
        assert [delivery.position for delivery in found] == self.model.to_deliver()
        for position, _, _, share, _, _ in found:
            done = {index for index in range(self.sizes[position]) if share and share.bits >> index & 1}
            assert done == {index for at, index in self.model.acknowledged if at == position}
        assert await records(self.world) == []
        await self.owner.die()
        for process in self.world.processes:
            await process.store.close()


@every_store
def test_nothing_committed_comes_again_and_nothing_aborted_is_lost(
    lacks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SubscriptionMachine, "lacks", lacks)
    run_state_machine_as_test(
        SubscriptionMachine,
        settings=settings(
            max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
