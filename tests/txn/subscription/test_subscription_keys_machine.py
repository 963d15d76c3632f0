"""Key-shared consumers that come and go, refuse, acknowledge in transactions and without, beside a model.

Every message is with one consumer at a time, the one that has its bucket; of each bucket all come in order; nothing is
lost. Nobody is given what lies behind something that a transaction holds, but who has acknowledged that. Nobody
acknowledges what somebody else has, or had last, and who comes back by his name and instance is the same one.
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
from subscription_world import KEY_SHARED, Owner, abort, begin, commit, take_all

from support.world import World, settle
from txn.model.errors import TxnConflict
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.entry import Entry, pack_hashes
from txn.segment.subscription import AckTooLate, Consumer, Delivery
from txn.segment.subscription.keys import spread
from txn.segment.subscription.values import Identity

T = TypeVar("T")
Message = tuple[Position, int]
STARTS = (0, 100, 200)
CONSUMERS_MAX = 4
EXAMPLES = 25

entries = st.lists(st.lists(st.integers(0, len(STARTS) - 1), min_size=1, max_size=4), min_size=1, max_size=4)


class Member:
    """A consumer, and what it has been given and has not acknowledged or refused, in the order in which it came."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.name = consumer.name
        identity = consumer.asking.identity
        assert identity is not None
        self.identity: Identity = identity
        self.taken: set[Message] = set()
        """What it may still show to somebody: what it was given on this stream, and has not acknowledged."""
        self.owed: set[Message] = set()
        """What it was given on this stream."""
        self.has: list[Message] = []


class KeysMachine(RuleBasedStateMachine):
    """One key-shared subscription through many owners."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.buckets: dict[Message, int] = {}
        self.sizes: dict[Position, int] = {}
        self.acknowledged: set[Message] = set()
        self.held: dict[TxnId, set[Message]] = {}
        self.acknowledged_by: dict[Message, Member] = {}
        """Of what transactions hold."""
        self.late: set[Message] = set()
        """What somebody has had and did not acknowledge while he had it."""
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

    # -- what there is

    @rule(entries=entries)
    def publish(self, entries: list[list[int]]) -> None:
        self.do(self._publish(entries))

    async def _publish(self, entries: list[list[int]]) -> None:
        for buckets in entries:
            hashes = [7 << 16 | STARTS[bucket] for bucket in buckets]
            entry = Entry(b"x", message_count=len(buckets), key_hashes=pack_hashes(hashes))
            (position,) = await self.owner.append(entry)
            self.sizes[position] = len(buckets)
            self.buckets.update({(position, index): bucket for index, bucket in enumerate(buckets)})

    @precondition(lambda self: self.members)
    @rule(data=st.data(), entries=entries, turns=st.integers(0, 20))
    def publish_while_somebody_asks_for_more(self, data: st.DataObject, entries: list[list[int]], turns: int) -> None:
        member = data.draw(st.sampled_from(self.members))

        async def work() -> None:
            await self._publish(entries)
            for _ in range(turns):
                await asyncio.sleep(0)
            member.consumer.permit(10)
            await settle()

        self.do(work())

    @rule(messages=st.integers(1, 3))
    def publish_without_hashes(self, messages: int) -> None:
        (position,) = self.do(self.owner.publish(1, messages=messages))
        self.sizes[position] = messages
        self.buckets.update({(position, index): 0 for index in range(messages)})

    @rule()
    def publish_void(self) -> None:
        self.do(self.owner.publish_void())

    # -- who is there

    @precondition(lambda self: len(self.members) < CONSUMERS_MAX)
    @rule(name=st.sampled_from(["ä", "b", "c", "c"]), permits=st.sampled_from([1, 5, 1_000]))
    def join(self, name: str, permits: int) -> None:
        self.came += 1
        self._join((name, self.came), permits)

    @precondition(lambda self: self.gone and len(self.members) < CONSUMERS_MAX)
    @rule(data=st.data(), permits=st.sampled_from([1, 5, 1_000]))
    def come_back(self, data: st.DataObject, permits: int) -> None:
        identity = data.draw(st.sampled_from(self.gone))
        self.gone.remove(identity)
        self._join(identity, permits)

    def _join(self, identity: Identity, permits: int) -> None:
        async def work() -> None:
            name, instance = identity
            consumer = self.subscription.attach(name, KEY_SHARED, starts=STARTS, instance=instance)
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
        self.late.update(member.has)
        self.do(member.consumer.close())
        self.do(settle())

    @rule()
    def crash(self) -> None:
        async def work() -> None:
            self.gone += [member.identity for member in self.members]
            self.members.clear()
            self.acknowledged_by.clear()
            self.had_last.clear()
            await self.owner.die()
            self.owner = await Owner.take(self.world)
            self.subscription = await self.owner.recover()

        self.do(work())

    # -- taking

    @precondition(lambda self: self.members)
    @rule(data=st.data(), permits=st.integers(1, 10))
    def receive(self, data: st.DataObject, permits: int) -> None:
        member = data.draw(st.sampled_from(self.members))
        for delivery in self.do(take_all(member.consumer, permits)):
            self._given(member, delivery)

    def _given(self, member: Member, delivery: Delivery) -> None:
        size = self.sizes[delivery.position]
        mask = 0 if delivery.acknowledged is None else delivery.acknowledged.bits
        given = [(delivery.position, index) for index in range(size) if not mask >> index & 1]
        assert given, "a delivery of nothing"
        for message in given:
            bucket = self.buckets[message]
            assert message not in self.acknowledged
            assert not any(message in held for held in self.held.values())
            assert not self._is_withheld(message, member), "behind what somebody else may have back"
            # It is nobody else's; and what this consumer has of the bucket behind it comes again after it.
            assert not any(message in other.taken for other in self.members if other is not member)
            others = [other for other in self.members if other is not member]
            assert not any(self.buckets[each] == bucket for other in others for each in other.has), "moved too soon"
            member.has = [each for each in member.has if self.buckets[each] != bucket or each < message]
        member.has += given
        member.taken.update(given)
        member.owed.update(given)
        self.had.setdefault(member.identity, set()).update(given)
        self.had_last.update(dict.fromkeys(given, member.identity))

    def _is_withheld(self, message: Message, member: Member) -> bool:
        """Whether somebody else has acknowledged something of its bucket, no later, in a transaction."""
        return any(
            self.buckets[each] == self.buckets[message]
            and each[0] <= message[0]
            and self.acknowledged_by.get(each) is not member
            for held in self.held.values()
            for each in held
        )

    # -- acknowledging

    @precondition(lambda self: any(member.has for member in self.members))
    @rule(data=st.data(), is_whole=st.booleans())
    def acknowledge(self, data: st.DataObject, is_whole: bool) -> None:
        member = data.draw(st.sampled_from([member for member in self.members if member.has]))
        position, _ = data.draw(st.sampled_from(sorted(member.has)))
        own = [each for each in member.has if each[0] == position]
        txn_id = data.draw(st.sampled_from([None, None, *self.held]))
        if not is_whole:
            own = [data.draw(st.sampled_from(sorted(own)))]
        indexes = tuple(sorted(index for _, index in own))
        ack = Ack(position) if is_whole else Ack(position, batch=indexes, batch_size=self.sizes[position])
        try:
            self.do(self.subscription.acknowledge([ack], txn_id, member.consumer))
        except TxnConflict:
            assert any(each in self.acknowledged for each in own), "refused for nothing"
            return
        finally:
            self.do(settle())
        member.has = [each for each in member.has if each not in own]
        member.taken.difference_update(own)
        if txn_id is None:
            self.acknowledged.update(own)
        else:
            self.held[txn_id].update(own)
            self.acknowledged_by.update(dict.fromkeys(own, member))

    @precondition(lambda self: self.late - self.acknowledged)
    @rule(data=st.data())
    def acknowledge_late(self, data: st.DataObject) -> None:
        """Whoever had it has it no longer: it waits, for a consumer or with one, or somebody else has taken it."""
        message = data.draw(st.sampled_from(sorted(self.late - self.acknowledged)))
        position, index = message
        txn_id = data.draw(st.sampled_from([None, *self.held]))
        ack = Ack(position, batch=(index,), batch_size=self.sizes[position])
        try:
            self.do(self.subscription.acknowledge([ack], txn_id))
        except TxnConflict:
            assert any(message in held for held in self.held.values()), "refused for nothing"
            return
        finally:
            self.do(settle())
        has_it = [member for member in self.members if message in member.has]
        for member in has_it:
            member.has.remove(message)
        for member in self.members:
            member.taken.discard(message)  # an operator may take it away from who has it
        if txn_id is None:
            self.acknowledged.add(message)
        elif message not in self.held[txn_id]:
            self.held[txn_id].add(message)
            self.acknowledged_by.pop(message, None)
            self.acknowledged_by.update((message, member) for member in has_it)

    @precondition(lambda self: any(self.had.get(member.identity) for member in self.members))
    @rule(data=st.data())
    def acknowledge_what_one_had(self, data: st.DataObject) -> None:
        """It may be his still, or nobody's; what somebody else has been given since is not his to acknowledge."""
        member = data.draw(st.sampled_from([each for each in self.members if self.had.get(each.identity)]))
        message = data.draw(st.sampled_from(sorted(self.had[member.identity])))
        position, index = message
        txn_id = data.draw(st.sampled_from([None, *self.held]))
        ack = Ack(position, batch=(index,), batch_size=self.sizes[position])
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
        has_it = message in member.has
        member.taken.discard(message)
        if has_it:
            member.has.remove(message)
        if txn_id is None:
            self.acknowledged.add(message)
        elif not is_own:
            self.held[txn_id].add(message)
            self.acknowledged_by.pop(message, None)
            if has_it:
                self.acknowledged_by[message] = member

    @precondition(lambda self: any(member.has for member in self.members))
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from([member for member in self.members if member.has]))
        position, _ = data.draw(st.sampled_from(sorted(member.has)))

        async def work() -> None:
            member.consumer.negative_acknowledge([position])
            await settle()

        buckets = {self.buckets[each] for each in member.has if each[0] == position}
        self.do(work())
        self.late.update(member.has)
        member.has = [each for each in member.has if self.buckets[each] not in buckets or each[0] < position]

    @precondition(lambda self: len(self.held) < 3)
    @rule()
    def begin(self) -> None:
        self.begun += 1
        self.held[self.do(begin(self.world, self.begun))] = set()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), is_committed=st.booleans())
    def decide(self, data: st.DataObject, is_committed: bool) -> None:
        txn_id = data.draw(st.sampled_from(sorted(self.held)))
        self._decide(txn_id, is_committed)

    def _decide(self, txn_id: TxnId, is_committed: bool) -> None:
        held = self.held.pop(txn_id)
        self.do((commit if is_committed else abort)(self.world, txn_id))
        if is_committed:
            self.acknowledged |= held
            return
        for position, index in held:
            # What the aborted transaction held is behind nothing of its bucket: all that is newer comes again.
            bucket = self.buckets[position, index]
            for member in self.members:
                member.has = [each for each in member.has if self.buckets[each] != bucket or each[0] < position]

    # -- all that is to be delivered is with somebody

    @precondition(lambda self: self.members)
    @rule()
    def everything_is_with_its_owner(self) -> None:
        for _ in range(len(STARTS) + 1):
            for member in self.members:
                for delivery in self.do(take_all(member.consumer)):
                    self._given(member, delivery)
        free = self.buckets.keys() - self.acknowledged - set().union(*self.held.values())
        places = spread(len(STARTS), [(each.name, each.consumer.number) for each in self.members])
        stayed = {self.buckets[each]: member for member in self.members for each in member.has}
        waiting: set[int] = set()
        for bucket, member in stayed.items():
            if self.members[places[bucket]] is not member:
                waiting.add(bucket)
        for message in free:
            bucket = self.buckets[message]
            owner = self.members[places[bucket]]
            is_there = message in owner.has or self._is_withheld(message, owner)
            is_there = is_there or any(self._stays(message, each) for each in self.members if each is not owner)
            assert is_there or bucket in waiting, f"{message} of bucket {bucket} is with nobody"
        for member in self.members:
            by_bucket: dict[int, list[Message]] = {}
            for each in member.has:
                by_bucket.setdefault(self.buckets[each], []).append(each)
            for found in by_bucket.values():
                assert found == sorted(found), "not in order"

    def _stays(self, message: Message, member: Member) -> bool:
        """Whether it is with who is owed something of its bucket, or has to wait for him."""
        bucket = self.buckets[message]
        owed = [each for each in member.owed - self.acknowledged if self.buckets[each] == bucket]
        return bool(owed) and (message > max(owed) or message in member.has or self._is_withheld(message, member))

    def teardown(self) -> None:
        try:
            if hasattr(self, "subscription"):
                for number, txn_id in enumerate(list(self.held)):
                    self._decide(txn_id, number % 2 == 0)
                self.do(self._finish())
        finally:
            self.runner.close()

    async def _finish(self) -> None:
        for member in self.members:
            await member.consumer.close()
        fresh = self.subscription.attach("fresh", KEY_SHARED, starts=STARTS)
        found: list[Message] = []
        for delivery in await take_all(fresh):
            mask = 0 if delivery.acknowledged is None else delivery.acknowledged.bits
            found += [(delivery.position, at) for at in range(self.sizes[delivery.position]) if not mask >> at & 1]
        assert found == sorted(self.buckets.keys() - self.acknowledged)
        if found:
            await self.subscription.acknowledge([Ack(position) for position in {at for at, _ in found}], None, fresh)
        await self.owner.seal()
        await settle()
        assert self.subscription.is_drained
        await self.owner.die()
        for process in self.world.processes:
            await process.store.close()


def test_every_message_goes_to_the_one_that_has_its_key_in_order() -> None:
    run_state_machine_as_test(
        KeysMachine,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
