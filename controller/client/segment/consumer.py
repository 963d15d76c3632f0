"""A consumer: messages come ahead of being asked for, as many as there is room for; acknowledgements go back.

What was delivered and not acknowledged when a stream breaks comes again on the next one. What waited here is given up
then, so that nothing is handed out twice by this side; and what the application acknowledges meanwhile is held back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from controller.client.caller import PASSING, Caller
from controller.client.confirmations import Confirmation, fail
from controller.client.deadlines import Deadlines
from controller.client.errors import (
    AckUnconfirmed,
    BrokerFailed,
    ClientBusy,
    ClientClosed,
    EndReached,
    InvalidRequest,
)
from controller.client.failures import error_of_answer
from controller.client.protocol import CONSUME, DELETE_SUBSCRIPTION, SEEK
from controller.client.segment.acks import Acknowledging, Acks, cumulative, individual
from controller.client.segment.consuming import Assigned, SegmentConsumerOptions
from controller.client.segment.credits import Budget
from controller.client.segment.inbox import Inbox
from controller.client.segment.member import SegmentMember
from controller.client.transaction import Transaction
from controller.client.values import (
    GivenBack,
    Message,
    MessageId,
    Received,
    Start,
    SubscriptionKind,
    bound_of,
    checked_most,
)
from controller.pb import broker_pb2 as pb
from metastore.coordination import Backoff
from txn.model.position import Position

T = TypeVar("T")

ACKS_PENDING_MAX = 10_000
"""Acknowledgements of one consumer that are not answered."""
NACKS_PENDING_MAX = 100_000
"""Messages that are given back and not sent yet."""


def _nothing() -> None:
    return


class SegmentConsumer(SegmentMember):
    """Receives from one subscription of one segment. An iterator of messages."""

    def __init__(
        self,
        caller: Caller,
        limits: pb.Limits,
        segment: str,
        subscription: str,
        options: SegmentConsumerOptions,
        *,
        budget: Budget | None = None,
        arrived: Callable[[], None] = _nothing,
    ) -> None:
        """With a `budget` it is one of several that share it. `arrived` is called when there is something to take."""
        if not 1 <= options.prefetch <= limits.permits_max:
            raise InvalidRequest(f"prefetch={options.prefetch}: 1 to {limits.permits_max} (permits_max of the broker)")
        super().__init__(caller, segment, f"consumer of {subscription!r} of {segment}")
        self.subscription = subscription
        self._limits = limits
        self._options = options
        self._instance = 1 + caller.pace.random.getrandbits(63)
        self._inbox = Inbox(segment)
        self._acks = Acks()
        self._deadlines = Deadlines(self._acks.unanswered, self._give_up)
        self._nacks: dict[GivenBack, None] = {}
        self._tell_arrived = arrived
        self._backoff = Backoff(caller.pace)
        self._must_pause = False
        self._to_say = asyncio.Event()
        own = budget or Budget(options.prefetch, options.prefetch_bytes)
        self._allowance = own.join(self._to_say.set)
        self._arrived = asyncio.Event()
        self._epoch = 0
        """Of what was delivered last in this stream; what came before with a smaller one is void."""
        self.turn = 0
        """How often delivery has begun anew: what is taken is of the last time."""
        self._is_quiet = False
        self._is_seeking = False
        self._has_ended = False
        self._is_closing = False
        self._start(CONSUME, self)

    # -- receiving

    async def receive(self, timeout_ms: int | None = None) -> Message:
        """The next message; TimeoutError if none comes in time, EndReached if none will ever come."""
        return (await self.receive_many(1, timeout_ms))[0]

    async def receive_many(self, messages_max: int, timeout_ms: int | None = None) -> list[Message]:
        """Waits for one message, and brings what else is there, up to so many."""
        checked_most(messages_max)
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while not (messages := self.take(messages_max)):
                self._check_goes_on()
                self._arrived.clear()
                await self._arrived.wait()
            return messages

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            try:
                message = await self.receive()
            except EndReached:
                return
            yield message

    def take(self, messages_max: int) -> list[Message]:
        """The next messages that are there, up to so many."""
        return [] if self._is_seeking else self._freeing(lambda: self._inbox.take(messages_max))

    @property
    def is_through(self) -> bool:
        """Whether the segment is sealed, and everything in it acknowledged; somebody may put the subscription back."""
        return self._has_ended and not len(self._inbox)

    def assigned_by(self, division: Assigned) -> None:
        """A newer division has left it its segment: another stream says so."""
        self._options = replace(self._options, assigned=division)

    def renew(self) -> None:
        """Somebody has put the subscription elsewhere: what has come, and what is on its way, is from before."""
        self._freeing(self._inbox.clear)
        self._lane.restart()

    def quiet(self) -> None:
        """Receives no more; what was received can be acknowledged still."""
        self._is_quiet = True
        self._freeing(self._inbox.clear)

    def _freeing(self, work: Callable[[], T]) -> T:
        """Does something that may take entries out; there is room for others then."""
        entries, size_bytes = len(self._inbox), self._inbox.size_bytes
        result = work()
        gone = entries - len(self._inbox)
        if gone:
            self._allowance.taken(gone, size_bytes - self._inbox.size_bytes)
        return result

    def _check_goes_on(self) -> None:
        if self._ended is not None:
            raise self._ended
        if self._has_ended:
            raise EndReached(f"{self.segment} is sealed, and {self.subscription!r} is through with everything in it")

    # -- acknowledging

    def acknowledge(self, *messages: Message | Received, txn: Transaction | None = None) -> Confirmation[None]:
        """Acknowledges these messages, all or none; the confirmation comes when that is durable.

        In a transaction it takes effect if and when that commits; if it aborts, the messages come again. TxnConflict if
        one of them is acknowledged already, or another transaction holds it.
        """
        self._check_acks(messages)
        acks = individual(messages, is_by_key=self._options.kind is SubscriptionKind.KEY_SHARED)
        if len(acks) > self._limits.acks_per_request_max:
            raise InvalidRequest(
                f"{len(acks)} entries in one acknowledgement: at most {self._limits.acks_per_request_max} "
                "(acks_per_request_max of the broker)"
            )
        return self._acknowledge(acks, [message.id for message in messages], None, None, txn)

    def acknowledge_cumulative(
        self, message: Message | Received, *, txn: Transaction | None = None
    ) -> Confirmation[None]:
        """Acknowledges this message, and of what lies before it everything that was given to this consumer.

        AckTooLate if something that was withheld, for a transaction held it, is to come after all: then everything that
        is not acknowledged comes again.
        """
        self._check_acks([message])
        if self._options.kind is SubscriptionKind.SHARED:
            raise InvalidRequest(f"{self.subscription!r} is shared: what comes before a message is others' as well")
        return self._acknowledge([cumulative(message)], (), message.id, message.era, txn)

    def negative_acknowledge(self, *messages: Message) -> None:
        """Gives these messages back: they are delivered again, here or to others. Where order is kept, with the rest of
        their entries and all that is behind them."""
        self._check_acks(messages)
        if not self._is_by_message:
            self._freeing(lambda: self._inbox.drop_entries({message.id.position for message in messages}))
        self.ask_again([GivenBack.of(message) for message in messages])

    def ask_again(self, messages: Collection[GivenBack]) -> None:
        """The same of messages that came over the present stream."""
        if len(self._nacks) + len(messages) > NACKS_PENDING_MAX:
            raise ClientBusy(f"{len(self._nacks)} messages are given back and not sent yet (NACKS_PENDING_MAX)")
        self._give_back(messages)

    @property
    def _is_by_message(self) -> bool:
        """Whether messages are acknowledged one by one."""
        return self._options.kind in (SubscriptionKind.SHARED, SubscriptionKind.KEY_SHARED)

    def _check_acks(self, messages: Sequence[Message | Received]) -> None:
        if self._ended is not None or self._is_closing:
            raise self._ended or ClientClosed(f"consumer of {self.subscription!r} is closed")
        if not messages:
            raise InvalidRequest("an acknowledgement of nothing: give the messages that it is about")
        for message in messages:
            if message.segment != self.segment:
                raise InvalidRequest(f"a message of {message.segment} was not received from {self.segment}")

    def _acknowledge(
        self,
        acks: list[pb.Ack],
        ids: Iterable[MessageId],
        through: MessageId | None,
        era: int | None,
        txn: Transaction | None,
    ) -> Confirmation[None]:
        if len(self._acks) >= ACKS_PENDING_MAX:
            raise ClientBusy(f"{len(self._acks)} acknowledgements are not answered (ACKS_PENDING_MAX): await some")
        if txn is not None:
            txn.check_usable("acknowledge")
        txn_id = "" if txn is None else str(txn.id)
        ack = self._acks.add(acks, ids, through, era, txn_id, self._caller.request_timeout_s)
        self._deadlines.watch(ack.due_s)
        if txn is not None:
            txn.register(ack.outcome)
        self._hold_back(ack)
        self._to_say.set()
        return Confirmation(ack.outcome)

    def _hold_back(self, ack: Acknowledging) -> None:
        """Copies of what is being acknowledged are not handed out."""
        through = ack.through
        if through is None:
            dropped = self._freeing(lambda: self._inbox.drop(ack.ids))
        else:
            dropped = self._freeing(lambda: self._inbox.drop_through(through))
        ack.held_back.update(map(GivenBack.of, dropped))

    def _ask_for_held_back(self, ack: Acknowledging) -> None:
        """Copies of what was not acknowledged after all are to come again. Where everything up to somewhere is
        acknowledged they come before anything that lies behind them: it would be acknowledged with that, and nobody
        would have been given it."""
        if ack.held_back and not self._is_by_message:
            self.renew()
        else:
            self._give_back(ack.held_back)

    def _give_up(self, ack: Acknowledging) -> None:
        self._ask_for_held_back(ack)
        what = f"an acknowledgement in {self.subscription!r} of {self.segment}"
        timeout = f"within {self._caller.request_timeout_s:g} s"
        fail(ack.outcome, AckUnconfirmed(f"{what} was not answered {timeout}: {self._lane.trouble}"))

    def _give_back(self, messages: Iterable[GivenBack]) -> None:
        self._nacks.update(dict.fromkeys(messages))
        self._to_say.set()

    # -- the subscription

    async def seek(self, start: Start) -> None:
        """Puts the subscription somewhere else: what is before that is acknowledged then, and nothing behind it."""
        request = pb.SeekRequest(segment=self.segment, subscription=self.subscription, bound=bound_of(start))
        self._is_seeking = True
        try:
            await self._caller.call(SEEK, request, f"seek in {self.subscription!r}", segment=self.segment)
        finally:
            self._is_seeking = False
            self._freeing(self._inbox.clear)
            self._lane.restart()  # what was on its way is from before

    async def unsubscribe(self) -> None:
        """Deletes the subscription, and closes the consumer."""
        await self.close()
        request = pb.DeleteSubscriptionRequest(segment=self.segment, subscription=self.subscription)
        await self._caller.call(DELETE_SUBSCRIPTION, request, f"delete {self.subscription!r}", segment=self.segment)

    async def close(self) -> None:
        """Ends when the acknowledgements are answered; what was not acknowledged is delivered to others, or later."""
        self._is_closing = True
        self._to_say.set()
        await self._lane.stop(self._caller.request_timeout_s)

    # -- what goes over the lane

    def opening(self) -> pb.ConsumeRequest:
        return pb.ConsumeRequest(open=self._options.opening(self.segment, self.subscription, self._instance))

    def begin(self, answer: pb.ConsumeResponse) -> int:
        if not answer.HasField("opened"):
            raise BrokerFailed(f"consumer of {self.subscription!r}: the broker answers before it has opened the stream")
        self._allowance.restart()
        self._epoch = 0
        self.turn += 1
        return answer.opened.term

    async def next_request(self) -> pb.ConsumeRequest | None:
        while True:
            if self._must_pause:
                await self._backoff.pause()
                self._must_pause = False
            credit = None if self._is_quiet or self._is_closing else self._allowance.grant()
            if credit is not None:
                return pb.ConsumeRequest(permit=pb.Permit(entries=credit.entries, bytes=credit.bytes))
            if self._nacks:
                return pb.ConsumeRequest(negative_acknowledge=self._take_nacks())
            ack = self._acks.take(self._limits.acknowledges_under_way_max)
            if ack is not None:
                return pb.ConsumeRequest(acknowledge=ack.request)
            if self.is_at_end():
                return None
            self._to_say.clear()
            await self._to_say.wait()

    async def hear(self, answer: pb.ConsumeResponse) -> None:
        if answer.HasField("deliveries"):
            self._has_ended = False
            for delivery in answer.deliveries.deliveries:
                self._take_in(delivery)
        for told in answer.acknowledgements.acknowledged:
            self._settle(told)
        if answer.HasField("end"):
            self._has_ended = True
            self._allowance.rest()
        self._arrived.set()
        self._tell_arrived()

    def interrupt(self) -> None:
        self._inbox.clear()
        self._allowance.restart()
        self._nacks.clear()
        self._acks.interrupt()
        self._has_ended = False

    def is_at_end(self) -> bool:
        return self._is_closing and not len(self._acks)

    def _take_nacks(self) -> pb.NegativeAcknowledge:
        nacks = list(islice(self._nacks, self._limits.acks_per_request_max))
        found: dict[tuple[Position, int], set[int]] = {}
        for each in nacks:
            del self._nacks[each]
            found.setdefault((each.id.position, each.redeliveries), set()).update(each.batch)
        return pb.NegativeAcknowledge(
            nacks=[
                pb.Nack(position=pb.Position(ledger=at.ledger, entry=at.entry), batch=sorted(batch), redeliveries=times)
                for (at, times), batch in found.items()
            ]
        )

    def _take_in(self, delivery: pb.Delivery) -> None:
        """An entry has come."""
        size_bytes = len(delivery.payload)
        self._allowance.arrived(size_bytes)
        if self._is_seeking or self._is_quiet:
            self._allowance.taken(1, size_bytes)
            return
        if delivery.epoch > self._epoch:
            self._epoch = delivery.epoch
            if self._options.kind is not SubscriptionKind.SHARED:
                self._freeing(self._inbox.clear)
                self.turn += 1
        for ack in self._acks.about(self._inbox.add(delivery, size_bytes)):
            self._hold_back(ack)

    def _settle(self, told: pb.Acknowledged) -> None:
        ack = self._acks.answered(told.request_id)
        if ack is None:
            raise BrokerFailed(f"consumer of {self.subscription!r}: the broker answers {told.request_id}, not asked")
        self._to_say.set()
        error = error_of_answer(told.error) if told.HasField("error") else None
        if isinstance(error, PASSING) and not ack.outcome.done():
            self._acks.again(ack)
            self._must_pause = True
        elif error is not None:
            self._ask_for_held_back(ack)
            fail(ack.outcome, error)
        elif not ack.outcome.done():
            ack.outcome.set_result(None)

    def _end(self, error: BaseException) -> None:
        """The lane has ended: nothing more comes, and nothing more is answered."""
        self._deadlines.stop()
        for ack in self._acks.unanswered():
            fail(ack.outcome, error)
        self._inbox.clear()
        self._allowance.leave()
        self._arrived.set()
        self._tell_arrived()
