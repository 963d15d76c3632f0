"""A producer's messages that are not confirmed, in their order: which ones go next, and which answer is whose. Pure.

    waiting    messages, not yet put into entries
    unsent     entries to be sent, or to be sent again, in front of what waits
    sent       entries on the present stream without an answer
    refused    entries that were answered with an error that passes: next when `sent` is empty, before anything else

An entry keeps its messages for ever, so that a broker recognises it when it comes again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.client.batches import Content, pack
from controller.client.compression import Compression
from controller.client.errors import InvalidRequest, MessageTooLarge
from controller.pb import broker_pb2 as pb

SEND_OVERHEAD_BYTES = 160
"""What an entry takes in a request beside its payload and properties; estimated from above."""


NO_HASH = -1
"""Of a message of which no hash is told: nobody shares its entry."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How messages are put into entries, and entries into requests."""

    batch_messages_max: int
    batch_bytes_max: int
    sends_per_request_max: int
    request_bytes_max: int
    compression: Compression = Compression.NONE
    has_gaps: bool = False
    """Whether numbers that an entry leaves out are those of messages elsewhere."""

    @classmethod
    def within(
        cls,
        limits: pb.Limits,
        batch_messages_max: int,
        batch_bytes_max: int,
        compression: Compression = Compression.NONE,
        has_gaps: bool = False,
    ) -> Packing:
        """As far as the broker allows."""
        return cls(
            min(batch_messages_max, limits.message_count_max),
            min(batch_bytes_max, limits.entry_bytes_max // 2),
            limits.sends_per_request_max,
            limits.request_bytes_max // 2,
            compression,
            has_gaps,
        )


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message on its way."""

    sequence_id: int
    content: Content
    txn_id: str
    outcome: asyncio.Future[Any]
    """What it was sent as is for the producer to say."""
    due_s: float
    """When it is given up, by the clock of the event loop."""
    hash: int = NO_HASH
    """Of its key, 32 bits."""
    deliver_at_ms: int = 0
    was_sent: bool = False
    """Whether a broker may have it."""
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = self.content.size_bytes


@dataclass(slots=True, eq=False)
class Parcel:
    """An entry on its way."""

    messages: list[Outgoing]
    compression: Compression = Compression.NONE
    first: int | None = None
    """The first number that it takes, where that is not its first message's."""
    send: pb.Send = field(init=False)
    payload_bytes: int = field(init=False)
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        first = self.messages[0]
        contents, numbers = [each.content for each in self.messages], [each.sequence_id for each in self.messages]
        self.send = pack(contents, numbers, self.compression, self.first)
        self.send.txn_id = first.txn_id
        self.send.deliver_at_ms = first.deliver_at_ms
        self.send.key_hashes.extend(each.hash for each in self.messages if each.hash != NO_HASH)
        self.payload_bytes = len(self.send.payload)
        self.size_bytes = self.send.ByteSize() + SEND_OVERHEAD_BYTES

    @property
    def was_sent(self) -> bool:
        """Whether a broker may have it."""
        return self.messages[0].was_sent

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits for its outcome any more."""
        return all(each.outcome.done() for each in self.messages)


class Outbox:
    """What is not confirmed."""

    def __init__(self, packing: Packing, dropped: Callable[[Outgoing], None] = lambda _: None) -> None:
        self._packing = packing
        self._dropped = dropped
        """Told of each message that is not sent because nobody waits for it any more."""
        self._waiting: deque[Outgoing] = deque()
        self._unsent: deque[Parcel] = deque()
        self._sent: deque[Parcel] = deque()
        self._refused: deque[Parcel] = deque()
        self._sent_bytes = 0
        self._last_number: int | None = None
        """Of the messages that were put into entries."""
        self._retrying = 0
        """Entries in front that were refused: they go one by one, so that none overtakes another."""
        self.count = 0
        """Messages, all in all."""
        self.size_bytes = 0
        """Their size."""

    def add(self, message: Outgoing) -> None:
        """The last one to go."""
        self._waiting.append(message)
        self._count(message, 1)

    @property
    def has_to_send(self) -> bool:
        """Whether something may go, were there room."""
        return bool(self._waiting or self._unsent) and not self._refused

    @property
    def has_refused(self) -> bool:
        """Whether something is to be sent again, and its turn has come."""
        return bool(self._refused) and not self._sent

    @property
    def is_retrying(self) -> bool:
        """Whether refusals are what holds things up."""
        return bool(self._refused or self._retrying)

    @property
    def fills_an_entry(self) -> bool:
        """Whether there is no point in waiting for company."""
        return bool(self._unsent) or len(self._waiting) >= self._packing.batch_messages_max

    @property
    def has_company(self) -> bool:
        """Whether another message would share an entry with what waits."""
        return 0 < len(self._waiting) < self._packing.batch_messages_max

    def take(self, window: pb.Window) -> list[Parcel]:
        """What goes into the next request, as far as the window has room."""
        taken: list[Parcel] = []
        size = 0
        while self.has_to_send and len(taken) < self._packing.sends_per_request_max:
            if self._retrying and self._sent:
                break
            parcel = self._next()
            if parcel is None:
                continue
            room = window.entries_max > len(self._sent) and window.bytes_max >= self._sent_bytes + parcel.payload_bytes
            if (self._sent and not room) or (taken and size + parcel.size_bytes > self._packing.request_bytes_max):
                self._unsent.appendleft(parcel)
                break
            for message in parcel.messages:
                message.was_sent = True
            taken.append(parcel)
            size += parcel.size_bytes
            self._sent.append(parcel)
            self._sent_bytes += parcel.payload_bytes
        return taken

    def answered(self, sequence_id: int) -> Parcel | None:
        """The entry that this answer is about, which is the first one without any; None if it is not."""
        if not self._sent or self._sent[0].send.sequence_id != sequence_id:
            return None
        parcel = self._sent.popleft()
        self._sent_bytes -= parcel.payload_bytes
        return parcel

    def forget(self, parcel: Parcel) -> None:
        """It has an outcome."""
        self._retrying = max(0, self._retrying - 1)
        for message in parcel.messages:
            self._count(message, -1)

    def refuse(self, parcel: Parcel) -> None:
        """It is to be sent again, in its place."""
        self._refused.append(parcel)

    def retry(self) -> None:
        """What was refused is next."""
        assert not self._sent, "what was sent behind it comes behind it again"
        self._retrying = len(self._refused)
        self._unsent.extendleft(reversed(self._refused))
        self._refused.clear()

    def interrupt(self) -> None:
        """The stream is gone: everything that was sent and not confirmed is next, in its order."""
        again = sorted([*self._refused, *self._sent], key=lambda parcel: parcel.send.sequence_id)
        self._unsent.extendleft(reversed(again))
        self._refused.clear()
        self._sent.clear()
        self._sent_bytes = self._retrying = 0

    def drop_given_up(self) -> None:
        """Makes room: what is next to be sent, and nobody waits for any more, is not sent."""
        while self._unsent and self._unsent[0].is_given_up:
            parcel = self._unsent.popleft()
            self.forget(parcel)
            for message in parcel.messages:
                self._dropped(message)
        while self._waiting and self._waiting[0].outcome.done():
            message = self._waiting.popleft()
            self._count(message, -1)
            self._dropped(message)

    def recall(self) -> list[Outgoing]:
        """Takes out what was never sent: all of it is behind what was."""
        again = deque(parcel for parcel in self._unsent if parcel.was_sent)
        back = [message for parcel in self._unsent if not parcel.was_sent for message in parcel.messages]
        back += self._waiting
        self._unsent = again
        self._waiting.clear()
        for message in back:
            self._count(message, -1)
        return back

    def messages(self) -> Iterator[Outgoing]:
        """Everything that is here."""
        for parcel in (*self._refused, *self._sent, *self._unsent):
            yield from parcel.messages
        yield from self._waiting

    def clear(self) -> None:
        """Nothing more will be sent."""
        for queue in (self._waiting, self._unsent, self._sent, self._refused):
            queue.clear()
        self._sent_bytes = self.count = self.size_bytes = 0

    def _next(self) -> Parcel | None:
        """The next entry; None if all that was left was given up."""
        self.drop_given_up()
        if self._unsent:
            return self._unsent.popleft()
        messages: list[Outgoing] = []
        size = 0
        while self._waiting and self._belongs(messages, size, self._waiting[0]):
            message = self._waiting.popleft()
            messages.append(message)
            size += message.size_bytes
        return self._parcel(messages) if messages else None

    def _parcel(self, messages: list[Outgoing]) -> Parcel:
        """An entry. Where numbers in between are elsewhere, it takes them all: so what a segment has of a producer has
        no holes, however many segments there are."""
        first = self._last_number + 1 if self._packing.has_gaps and self._last_number is not None else None
        self._last_number = messages[-1].sequence_id
        return Parcel(messages, self._packing.compression, first)

    def _belongs(self, messages: list[Outgoing], size: int, message: Outgoing) -> bool:
        """Whether a message can go into an entry with these."""
        if not messages:
            return True
        packing, last = self._packing, messages[-1]
        return (
            len(messages) < packing.batch_messages_max
            and size + message.size_bytes <= packing.batch_bytes_max
            and message.txn_id == last.txn_id
            and (packing.has_gaps or message.sequence_id == last.sequence_id + 1)
            and not (message.deliver_at_ms or last.deliver_at_ms)  # they are delivered one by one
        )

    def _count(self, message: Outgoing, sign: int) -> None:
        self.count += sign
        self.size_bytes += sign * message.size_bytes


def checked_content(
    limits: pb.Limits, payload: bytes, properties: Mapping[str, str], key: str | None = None, event_ms: int = 0
) -> Content:
    """What an application wants to send, if it may be sent."""
    if len(properties) > limits.properties_max:
        raise InvalidRequest(
            f"{len(properties)} properties: at most {limits.properties_max} (properties_max of the broker)"
        )
    try:
        data = bytes(memoryview(payload))
    except TypeError:
        raise InvalidRequest(f"a payload of type {type(payload).__name__}: bytes are expected") from None
    content = Content(data, {str(each): str(properties[each]) for each in properties}, key, event_ms)
    if content.size_bytes + SEND_OVERHEAD_BYTES > limits.entry_bytes_max:
        raise MessageTooLarge(
            f"a message of about {content.size_bytes} bytes, with its properties: at most "
            f"{limits.entry_bytes_max - SEND_OVERHEAD_BYTES} (entry_bytes_max of the broker)"
        )
    return content
