"""A producer: messages go out one behind the other, without waiting for each other's confirmations.

Every message has a number, and every producer a name. So a message whose answer was lost is sent again, to whoever owns
the segment by then, and is stored once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from controller.client.batches import Content
from controller.client.caller import Caller
from controller.client.confirmations import Confirmation, fail
from controller.client.deadlines import Deadlines
from controller.client.errors import (
    BrokerFailed,
    BrokersUnavailable,
    ClientBusy,
    ClientClosed,
    InvalidRequest,
    MessageTooLarge,
    SendUnconfirmed,
)
from controller.client.failures import error_of_answer
from controller.client.lane import Lane, as_error
from controller.client.outbox import SEND_OVERHEAD_BYTES, Outbox, Outgoing, Packing, Parcel
from controller.client.protocol import PRODUCE
from controller.client.transaction import Transaction
from controller.client.values import MessageId, Sent, position_of
from controller.pb import broker_pb2 as pb
from metastore.coordination import Backoff
from txn.model.errors import TxnError, TxnRetriable
from txn.segment.entry import SEQUENCE_ID_MAX

BATCH_MESSAGES_LIMIT = 10_000
LINGER_MS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """How a producer sends."""

    batch_messages_max: int = 1
    """How many messages may go into one entry, if so many wait."""
    batch_bytes_max: int = 128 << 10
    """A single larger message goes alone."""
    linger_ms: int = 0
    """How long a message waits for company. Without it, as long as earlier ones fill the window."""
    pending_messages_max: int = 10_000
    """That are not confirmed."""
    pending_bytes_max: int = 64 << 20
    """Of their payloads and properties."""

    def __post_init__(self) -> None:
        for name in ("batch_messages_max", "batch_bytes_max", "pending_messages_max", "pending_bytes_max"):
            if getattr(self, name) < 1:
                raise InvalidRequest(f"{name}={getattr(self, name)}: at least 1")
        if self.batch_messages_max > BATCH_MESSAGES_LIMIT or not 0 <= self.linger_ms <= LINGER_MS_MAX:
            raise InvalidRequest(
                f"batch_messages_max={self.batch_messages_max}, linger_ms={self.linger_ms}: at most "
                f"{BATCH_MESSAGES_LIMIT} (BATCH_MESSAGES_LIMIT) and {LINGER_MS_MAX} (LINGER_MS_MAX)"
            )


class Producer:
    """Sends to one segment. A context manager that closes it."""

    def __init__(
        self,
        caller: Caller,
        limits: pb.Limits,
        segment: str,
        name: str,
        options: ProducerOptions,
        first_sequence_id: int | None,
    ) -> None:
        self.segment = segment
        self.name = name
        self._caller = caller
        self._limits = limits
        self._options = options
        self._next_sequence_id = first_sequence_id
        """None: the application numbers its messages."""
        self._least_sequence_id = 0
        packing = Packing(
            min(options.batch_messages_max, limits.message_count_max),
            min(options.batch_bytes_max, limits.entry_bytes_max // 2),
            limits.sends_per_request_max,
            limits.request_bytes_max // 2,
        )
        self._outbox = Outbox(packing)
        self._deadlines = Deadlines(self._outbox.messages, self._give_up)
        self._window = pb.Window()
        self._backoff = Backoff(caller.pace)
        self._refusal: TxnError | None = None
        """The last one that was said to pass."""
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._is_closing = False
        self._ended: BaseException | None = None
        self._lane = Lane(caller, segment, PRODUCE, self, f"producer {name!r} of {segment}")
        self._lane.task.add_done_callback(self._end)

    @property
    def running(self) -> asyncio.Task[None]:
        """Ends with it."""
        return self._lane.task

    async def wait_opened(self) -> None:
        """Returns when a broker has accepted it."""
        await self._lane.wait_opened(self._caller.request_timeout_s)

    def send(
        self,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        txn: Transaction | None = None,
        sequence_id: int | None = None,
    ) -> Confirmation[Sent]:
        """Sends a message behind those that were sent before; the confirmation comes when it is durable.

        The call itself does not wait. ClientBusy, and nothing is sent, when too much is not confirmed: `wait_room`.
        In a transaction the message is seen if and when that commits.
        """
        content = self._checked(payload, properties or {})
        if self._is_closing or self._ended is not None:
            raise self._ended or ClientClosed(f"producer {self.name!r} of {self.segment} is closed")
        if not self._has_room:
            raise ClientBusy(
                f"producer {self.name!r}: {self._outbox.count} messages of {self._outbox.size_bytes} bytes are not "
                f"confirmed: at most {self._options.pending_messages_max} (pending_messages_max) or "
                f"{self._options.pending_bytes_max} bytes (pending_bytes_max): await confirmations, or wait_room()"
            )
        if txn is not None:
            txn.check_usable("send")
        loop = asyncio.get_running_loop()
        number = self._take_number(sequence_id)
        txn_id = "" if txn is None else str(txn.id)
        due_s = loop.time() + self._caller.request_timeout_s
        message = Outgoing(number, content, txn_id, loop.create_future(), content.size_bytes, due_s)
        self._deadlines.watch(due_s)
        if txn is not None:
            txn.register(message.outcome)
        self._outbox.add(message)
        self._news.set()
        return Confirmation(message.outcome)

    async def wait_room(self) -> None:
        """Returns when another message can be sent."""
        while not self._has_room and self._ended is None:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Returns when everything that was sent until now is confirmed, or has failed."""
        outcomes = [message.outcome for message in self._outbox.messages()]
        if outcomes:
            await asyncio.wait(outcomes)

    async def close(self) -> None:
        """Sends what waits, and ends. What is not confirmed within the request timeout fails."""
        self._is_closing = True
        self._news.set()
        await self._lane.stop(self._caller.request_timeout_s)

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- what a message may be

    @property
    def _has_room(self) -> bool:
        outbox, options = self._outbox, self._options
        return outbox.count < options.pending_messages_max and outbox.size_bytes < options.pending_bytes_max

    def _checked(self, payload: bytes, properties: Mapping[str, str]) -> Content:
        if len(properties) > self._limits.properties_max:
            most = self._limits.properties_max
            raise InvalidRequest(f"{len(properties)} properties: at most {most} (properties_max of the broker)")
        try:
            content = Content(bytes(memoryview(payload)), {str(each): str(properties[each]) for each in properties})
        except TypeError:
            raise InvalidRequest(f"a payload of type {type(payload).__name__}: bytes are expected") from None
        if content.size_bytes + SEND_OVERHEAD_BYTES > self._limits.entry_bytes_max:
            raise MessageTooLarge(
                f"a message of about {content.size_bytes} bytes, with its properties: at most "
                f"{self._limits.entry_bytes_max - SEND_OVERHEAD_BYTES} (entry_bytes_max of the broker)"
            )
        return content

    def _take_number(self, given: int | None) -> int:
        """The message's number; InvalidRequest if it is not behind those before."""
        if (given is None) == (self._next_sequence_id is None):
            raise InvalidRequest(
                f"producer {self.name!r}: either it has a first_sequence_id and numbers its messages itself, or every "
                "send gives a sequence_id"
            )
        number = self._next_sequence_id if given is None else given
        assert number is not None, "one of them numbers the messages"
        if not self._least_sequence_id <= number <= SEQUENCE_ID_MAX:
            raise InvalidRequest(f"sequence_id={number}: from {self._least_sequence_id} on, to {SEQUENCE_ID_MAX}")
        self._least_sequence_id = number + 1
        if given is None:
            self._next_sequence_id = number + 1
        return number

    # -- what goes over the lane

    def opening(self) -> pb.ProduceRequest:
        return pb.ProduceRequest(open=pb.OpenProducer(segment=self.segment, producer=self.name))

    def begin(self, answer: pb.ProduceResponse) -> int:
        if not answer.HasField("opened"):
            raise BrokerFailed(f"producer {self.name!r}: the broker answers before it has opened the stream")
        self._window = answer.opened.window
        return answer.opened.term

    async def next_request(self) -> pb.ProduceRequest | None:
        while True:
            if self._outbox.has_refused:
                await self._backoff.pause()
                self._outbox.retry()
            await self._linger()
            parcels = self._outbox.take(self._window)
            if parcels:
                return pb.ProduceRequest(sends=pb.Sends(sends=[parcel.send for parcel in parcels]))
            if self.is_at_end():
                return None
            self._news.clear()
            await self._news.wait()

    async def hear(self, answer: pb.ProduceResponse) -> None:
        for told in answer.answers.answers:
            parcel = self._outbox.answered(told.sequence_id)
            if parcel is None:
                raise BrokerFailed(f"producer {self.name!r}: the broker confirms {told.sequence_id} out of turn")
            self._settle(parcel, told)
        self._news.set()
        self._room.set()

    def interrupt(self) -> None:
        self._outbox.interrupt()

    def is_at_end(self) -> bool:
        return self._is_closing and not self._outbox.count

    async def _linger(self) -> None:
        """Waits for company, if there is any point in it."""
        if self._options.linger_ms and self._outbox.has_to_send and not self._outbox.fills_an_entry:
            await asyncio.sleep(self._options.linger_ms / 1000)

    def _settle(self, parcel: Parcel, told: pb.SendAnswer) -> None:
        """An entry has an outcome, or is to be sent again."""
        error = error_of_answer(told.error) if told.HasField("error") else None
        if isinstance(error, TxnRetriable) and not parcel.is_given_up:
            self._outbox.refuse(parcel)
            self._refusal = error
            return
        self._outbox.forget(parcel)
        position = position_of(told.position) if told.HasField("position") else None
        for index, message in enumerate(parcel.messages):
            if error is not None:
                fail(message.outcome, error)
            elif not message.outcome.done():
                where = None if position is None else MessageId(position, index)
                message.outcome.set_result(Sent(message.sequence_id, where, told.is_duplicate))

    # -- ends

    def _give_up(self, message: Outgoing) -> None:
        """There was no answer in time."""
        what = f"message {message.sequence_id} of producer {self.name!r} to {self.segment}"
        timeout = f"within {self._caller.request_timeout_s:g} s"
        trouble = self._refusal if self._outbox.is_retrying and self._refusal is not None else self._lane.trouble
        if message.was_sent:
            fail(message.outcome, SendUnconfirmed(f"{what} was not confirmed {timeout}: {trouble}"))
        else:
            fail(message.outcome, BrokersUnavailable(f"{what} was not sent {timeout}: {trouble}"))
        self._outbox.drop_given_up()
        self._room.set()

    def _end(self, task: asyncio.Task[None]) -> None:
        """The lane has ended: nothing more will be confirmed."""
        self._ended = as_error(task, f"producer {self.name!r} of {self.segment}")
        self._deadlines.stop()
        for message in list(self._outbox.messages()):
            fail(message.outcome, self._ended)
        self._outbox.clear()
        self._room.set()
