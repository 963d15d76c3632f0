"""A consumer's acknowledgements that are not answered: what is to be sent, what was, and what they are about. Pure.

While an acknowledgement is not answered, copies of its messages that come in are held back: the application has them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controller.client.errors import InvalidRequest
from controller.client.values import Message, MessageId
from controller.pb import broker_pb2 as pb
from txn.model.position import Position


@dataclass(slots=True, eq=False)
class Acknowledging:
    """One acknowledgement on its way."""

    request: pb.Acknowledge
    ids: frozenset[MessageId]
    """The messages it is about; of a cumulative one, the last."""
    is_cumulative: bool
    outcome: asyncio.Future[None]
    due_s: float
    """When it is given up, by the clock of the event loop."""
    held_back: set[Position] = field(default_factory=set)
    """Entries of which copies were held back: delivered again, if it fails."""

    def is_about(self, message: Message) -> bool:
        """Whether it acknowledges a message."""
        if self.is_cumulative:
            (last,) = self.ids
            return message.id <= last
        return message.id in self.ids


class Acks:
    """Acknowledgements in the order in which they were begun."""

    def __init__(self) -> None:
        self._waiting: deque[Acknowledging] = deque()
        self._sent: dict[int, Acknowledging] = {}
        self._by_message: dict[MessageId, Acknowledging] = {}
        self._cumulative: dict[int, Acknowledging] = {}
        self._last_request_id = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    def add(
        self, acks: Sequence[pb.Ack], ids: Iterable[MessageId], txn_id: str, is_cumulative: bool, timeout_s: float
    ) -> Acknowledging:
        """Another one, to be sent behind the others."""
        loop = asyncio.get_running_loop()
        self._last_request_id += 1
        request = pb.Acknowledge(request_id=self._last_request_id, acks=acks, txn_id=txn_id)
        due_s = loop.time() + timeout_s
        added = Acknowledging(request, frozenset(ids), is_cumulative, loop.create_future(), due_s)
        self._waiting.append(added)
        if is_cumulative:
            self._cumulative[self._last_request_id] = added
        else:
            self._by_message.update(dict.fromkeys(added.ids, added))
        return added

    def take(self, under_way_max: int) -> Acknowledging | None:
        """The next one to send, if it may be; those that nobody waits for any more are not sent."""
        while self._waiting and len(self._sent) < under_way_max:
            ack = self._waiting.popleft()
            if not ack.outcome.done():
                self._sent[ack.request.request_id] = ack
                return ack
            self._forget(ack)
        return None

    def answered(self, request_id: int) -> Acknowledging | None:
        """The one that an answer is about; None if there is none."""
        ack = self._sent.pop(request_id, None)
        if ack is not None:
            self._forget(ack)
        return ack

    def again(self, ack: Acknowledging) -> None:
        """It is the next to be sent, once more."""
        self._waiting.appendleft(ack)
        if ack.is_cumulative:
            self._cumulative[ack.request.request_id] = ack
        else:
            self._by_message.update(dict.fromkeys(ack.ids, ack))

    def interrupt(self) -> None:
        """The stream is gone: what was sent and not answered is next."""
        self._waiting.extendleft(reversed(self._sent.values()))
        self._sent.clear()

    def about(self, message: Message) -> Acknowledging | None:
        """The one that acknowledges this message, if there is one."""
        found = self._by_message.get(message.id)
        if found is not None:
            return found
        return next((each for each in self._cumulative.values() if each.is_about(message)), None)

    def unanswered(self) -> list[Acknowledging]:
        """All that are not answered."""
        return [*self._sent.values(), *self._waiting]

    def _forget(self, ack: Acknowledging) -> None:
        self._cumulative.pop(ack.request.request_id, None)
        for each in ack.ids:
            if self._by_message.get(each) is ack:
                del self._by_message[each]


def individual(messages: Sequence[Message]) -> list[pb.Ack]:
    """Acknowledgements of these messages, an entry's together."""
    indexes: dict[Position, set[int]] = {}
    sizes: dict[Position, int] = {}
    for message in messages:
        indexes.setdefault(message.id.position, set()).add(message.id.batch_index)
        sizes[message.id.position] = message.batch_size
    return [_ack(position, sorted(found), sizes[position]) for position, found in indexes.items()]


def cumulative(message: Message) -> pb.Ack:
    """The acknowledgement of a message and everything before it."""
    index, size = message.id.batch_index, message.batch_size
    ack = _ack(message.id.position, [] if index == size - 1 else [index], size)
    ack.is_cumulative = True
    return ack


def _ack(position: Position, indexes: Sequence[int], size: int) -> pb.Ack:
    where = pb.Position(ledger=position.ledger, entry=position.entry)
    if not indexes or len(indexes) == size:
        return pb.Ack(position=where)
    if indexes[-1] >= size:
        raise InvalidRequest(f"message {indexes[-1]} of the batch of {size} at {position}")
    return pb.Ack(position=where, batch=indexes, batch_size=size)
