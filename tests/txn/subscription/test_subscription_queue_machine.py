"""Consumers of a queue that come and go, give back, acknowledge in transactions and without, beside a model.

Every message is with one consumer at a time: with nobody else as long as one may show it to his application yet. Nobody
acknowledges what somebody else has, or had last. What is given back by another delivery than the last one stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from subscription_world import SHARED, Owner, abort, begin, commit, take_all

from support.world import World, settle
from txn.model.errors import TxnConflict
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.subscription import AckTooLate, Consumer, Delivery, Nack
from txn.segment.subscription.values import Identity

T = TypeVar("T")
Message = tuple[Position, int]
CONSUMERS_MAX = 3
EXAMPLES = 25


class Member:
    """A consumer, and what it may show: what it was given and has not acknowledged or given back, and by what."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        identity = consumer.asking.identity
        assert identity is not None
        self.identity: Identity = identity
        self.has: dict[Message, int] = {}


class QueueMachine(RuleBasedStateMachine):
    """One queue through many owners."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.sizes: dict[Position, int] = {}
        self.acknowledged: set[Message] = set()
        self.held: dict[TxnId, set[Message]] = {}
        self.had: dict[Identity, set[Message]] = {}
        """Everything that anybody was ever given."""
        self.had_last: dict[Message, Identity] = {}
        """As the owner knows."""
        self.gone: list[Identity] = []
        self.members: list[Member] = []
        self.begun = 0
        self.came = 0

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def start(self) -> None:
        async def work() -> None:
            self.world = World()
            self.owner = await Owner.take(self.world)
            self.subscription = await self.owner.create()

        self.do(work())

    @rule(messages=st.integers(1, 4), count=st.integers(1, 3))
    def publish(self, messages: int, count: int) -> None:
        for position in self.do(self.owner.publish(count, messages=messages)):
            self.sizes[position] = messages

    @rule()
    def publish_void(self) -> None:
        self.do(self.owner.publish_void())

    # -- who is there

    @precondition(lambda self: len(self.members) < CONSUMERS_MAX)
    @rule(permits=st.sampled_from([1, 5, 1_000]))
    def join(self, permits: int) -> None:
        self.came += 1
        self._join(("one", self.came), permits)

    @precondition(lambda self: self.gone and len(self.members) < CONSUMERS_MAX)
    @rule(data=st.data(), permits=st.sampled_from([1, 5, 1_000]))
    def come_back(self, data: st.DataObject, permits: int) -> None:
        identity = data.draw(st.sampled_from(self.gone))
        self.gone.remove(identity)
        self._join(identity, permits)

    def _join(self, identity: Identity, permits: int) -> None:
        async def work() -> None:
            name, instance = identity
            consumer = self.subscription.attach(name, SHARED, instance=instance)
            consumer.permit(permits)
            self.members.append(Member(consumer))
            await settle()

        self.do(work())

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.members))
        self.members.remove(member)
        self.gone.append(member.identity)
        self.do(member.consumer.close())
        self.do(settle())

    @rule()
    def crash(self) -> None:
        async def work() -> None:
            self.gone += [member.identity for member in self.members]
            self.members.clear()
            self.had_last.clear()
            await self.owner.die()
            self.owner = await Owner.take(self.world)
            self.subscription = await self.owner.recover()

        self.do(work())

    # -- taking and giving back

    @precondition(lambda self: self.members)
    @rule(data=st.data(), permits=st.integers(1, 10))
    def receive(self, data: st.DataObject, permits: int) -> None:
        member = data.draw(st.sampled_from(self.members))
        for delivery in self.do(take_all(member.consumer, permits)):
            self._given(member, delivery)

    def _given(self, member: Member, delivery: Delivery) -> None:
        mask = 0 if delivery.acknowledged is None else delivery.acknowledged.bits
        size = self.sizes[delivery.position]
        given = [(delivery.position, index) for index in range(size) if not mask >> index & 1]
        assert given, "a delivery of nothing"
        for message in given:
            assert message not in self.acknowledged
            assert not any(message in held for held in self.held.values())
            assert not any(message in each.has for each in self.members), "somebody has it"
            member.has[message] = delivery.redeliveries
            self.had_last[message] = member.identity
        self.had.setdefault(member.identity, set()).update(given)

    @precondition(lambda self: any(member.has for member in self.members))
    @rule(data=st.data(), is_stale=st.booleans())
    def give_back(self, data: st.DataObject, is_stale: bool) -> None:
        member = data.draw(st.sampled_from([member for member in self.members if member.has]))
        position, index = message = data.draw(st.sampled_from(sorted(member.has)))
        by = member.has[message] + 1 if is_stale else member.has.pop(message)

        async def work() -> None:
            member.consumer.give_back([Nack(position, 1 << index, by)])
            await settle()

        self.do(work())

    @precondition(lambda self: any(member.has for member in self.members))
    @rule(data=st.data())
    def give_back_an_entry(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from([member for member in self.members if member.has]))
        position, _ = data.draw(st.sampled_from(sorted(member.has)))
        member.has = {message: by for message, by in member.has.items() if message[0] != position}

        async def work() -> None:
            member.consumer.negative_acknowledge([position])
            await settle()

        self.do(work())

    # -- acknowledging

    @precondition(lambda self: any(self.had.get(member.identity) for member in self.members))
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """It may be his, or nobody's; what somebody else has been given since is not his to acknowledge."""
        member = data.draw(st.sampled_from([each for each in self.members if self.had.get(each.identity)]))
        is_of_now = bool(member.has) and data.draw(st.booleans())
        had = sorted(member.has if is_of_now else self.had[member.identity])
        position, index = message = data.draw(st.sampled_from(had))
        txn_id = data.draw(st.sampled_from([None, *self.held]))
        size = self.sizes[position]
        ack = Ack(position, batch=(index,), batch_size=size) if size > 1 else Ack(position)
        is_own = message in (self.held[txn_id] if txn_id is not None else self.acknowledged)
        is_late = self.had_last.get(message, member.identity) != member.identity
        try:
            self.do(self.subscription.acknowledge([ack], txn_id, member.consumer))
        except TxnConflict:
            is_held = any(message in held for held in self.held.values())
            assert is_held or message in self.acknowledged, "refused for nothing"
            return
        except AckTooLate:
            assert is_late, "nobody else has it"
            assert message not in self.acknowledged, "it is done with"
            return
        finally:
            self.do(settle())
        assert is_own or not is_late, "somebody else has it"
        member.has.pop(message, None)
        if txn_id is None:
            self.acknowledged.add(message)
        else:
            self.held[txn_id].add(message)

    @precondition(lambda self: len(self.held) < 3)
    @rule()
    def begin(self) -> None:
        self.begun += 1
        self.held[self.do(begin(self.world, self.begun))] = set()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), is_committed=st.booleans())
    def decide(self, data: st.DataObject, is_committed: bool) -> None:
        txn_id = data.draw(st.sampled_from(sorted(self.held)))
        held = self.held.pop(txn_id)
        self.do((commit if is_committed else abort)(self.world, txn_id))
        if is_committed:
            self.acknowledged |= held

    # -- all that is to be delivered is with somebody

    @property
    def _free(self) -> set[Message]:
        everything = {(position, index) for position, size in self.sizes.items() for index in range(size)}
        return everything - self.acknowledged - set().union(*self.held.values())

    @precondition(lambda self: self.members)
    @rule()
    def everything_is_with_somebody(self) -> None:
        for member in self.members:
            for delivery in self.do(take_all(member.consumer)):
                self._given(member, delivery)
        assert self._free == {message for member in self.members for message in member.has}

    def teardown(self) -> None:
        try:
            if hasattr(self, "subscription"):
                self.do(self._finish())
        finally:
            self.runner.close()

    async def _finish(self) -> None:
        for txn_id in list(self.held):
            del self.held[txn_id]
            await abort(self.world, txn_id)
        for member in self.members:
            await member.consumer.close()
        fresh = self.subscription.attach("fresh", SHARED, instance=self.came + 1)
        last = Member(fresh)
        self.members = [last]
        for delivery in await take_all(fresh):
            self._given(last, delivery)
        assert last.has.keys() == self._free
        if last.has:
            acks = [Ack(position) for position in {position for position, _ in last.has}]
            await self.subscription.acknowledge(acks, None, fresh)
        await self.owner.seal()
        await settle()
        assert self.subscription.is_drained
        await self.owner.die()
        for process in self.world.processes:
            await process.store.close()


def test_every_message_of_a_queue_is_with_one_consumer_who_alone_acknowledges_it() -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
