"""A producer: messages go out one behind the other, without waiting for each other's confirmations.

Every message has a number, and every producer a name. So a message whose answer was lost is sent again, to whoever owns
the segment by then, and is stored once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from controller.client.caller import Caller
from controller.client.confirmations import Confirmation, fail
from controller.client.deadlines import Deadlines
from controller.client.errors import ClientBusy, ClientClosed, InvalidRequest
from controller.client.segment.outbox import Outgoing, Packing, Parcel, checked_content
from controller.client.segment.sending import Sending
from controller.client.transaction import Transaction
from controller.client.values import MessageId, Sent
from controller.pb import broker_pb2 as pb
from txn.model.errors import TxnError
from txn.model.position import Position
from txn.segment.entry import SEQUENCE_ID_MAX

BATCH_MESSAGES_LIMIT = 10_000
LINGER_MS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class SegmentProducerOptions:
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


class SegmentProducer(Sending):
    """Sends to one segment."""

    def __init__(
        self,
        caller: Caller,
        limits: pb.Limits,
        segment: str,
        name: str,
        options: SegmentProducerOptions,
        first_sequence_id: int | None,
    ) -> None:
        self._limits = limits
        self._options = options
        self._next_sequence_id = first_sequence_id
        """None: the application numbers its messages."""
        self._least_sequence_id = 0
        self._room = asyncio.Event()
        packing = Packing.within(limits, options.batch_messages_max, options.batch_bytes_max)
        super().__init__(caller, segment, name, packing, options.linger_ms)
        self._deadlines = Deadlines(self._outbox.messages, self._give_up)

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
        content = checked_content(self._limits, payload, properties or {})
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
        message = Outgoing(number, content, txn_id, loop.create_future(), due_s)
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

    # -- what a message may be

    @property
    def _has_room(self) -> bool:
        outbox, options = self._outbox, self._options
        return outbox.count < options.pending_messages_max and outbox.size_bytes < options.pending_bytes_max

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

    # -- what becomes of entries

    def _stored(self, parcel: Parcel, position: Position | None, is_duplicate: bool) -> None:
        for index, message in enumerate(parcel.messages):
            if not message.outcome.done():
                where = None if position is None else MessageId(position, index)
                message.outcome.set_result(Sent(message.sequence_id, where, is_duplicate))
        self._room.set()

    def _refused(self, parcel: Parcel, error: TxnError) -> None:
        for message in parcel.messages:
            fail(message.outcome, error)
        self._room.set()

    def _give_up(self, message: Outgoing) -> None:
        """There was no answer in time."""
        fail(message.outcome, self._unconfirmed(message))
        self._outbox.drop_given_up()
        self._room.set()

    def _end(self, error: BaseException) -> None:
        """The lane has ended: nothing more will be confirmed."""
        self._deadlines.stop()
        for message in list(self._outbox.messages()):
            fail(message.outcome, error)
        self._outbox.clear()
        self._room.set()
