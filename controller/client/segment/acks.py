"""A consumer's acknowledgements that are not answered: what is to be sent, what was, and what they are about. Pure.

While an acknowledgement is not answered, copies of its messages that come in are held back: the application has them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controller.client.errors import InvalidRequest
from controller.client.values import GivenBack, Message, MessageId, Received
from controller.pb import broker_pb2 as pb
from txn.model.position import Position


@dataclass(slots=True, eq=False)
class Acknowledging:
    """One acknowledgement on its way."""

    request: pb.Acknowledge
    ids: frozenset[MessageId]
    """The messages it is about; of a cumulative one, none."""
    through: MessageId | None
    """The last of those a cumulative one is about."""
    outcome: asyncio.Future[None]
    due_s: float
    """When it is given up, by the clock of the event loop."""
    held_back: set[GivenBack] = field(default_factory=set)
    """Copies that were held back on the present stream: delivered again, if it fails."""


class Acks:
    """Acknowledgements in the order in which they were begun."""

    def __init__(self) -> None:
        self._waiting: deque[Acknowledging] = deque()
        self._sent: dict[int, Acknowledging] = {}
        self._by_entry: dict[Position, dict[Acknowledging, None]] = {}
        self._cumulative: dict[Acknowledging, MessageId] = {}
        self._through: MessageId | None = None
        """No cumulative one goes farther."""
        self._last_request_id = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    def add(
        self,
        acks: Sequence[pb.Ack],
        ids: Iterable[MessageId],
        through: MessageId | None,
        era: int | None,
        txn_id: str,
        timeout_s: float,
    ) -> Acknowledging:
        """Another one, to be sent behind the others; about these messages, or about all through one of that era."""
        loop = asyncio.get_running_loop()
        self._last_request_id += 1
        request = pb.Acknowledge(request_id=self._last_request_id, acks=acks, txn_id=txn_id, era=era)
        due_s = loop.time() + timeout_s
        added = Acknowledging(request, frozenset(ids), through, loop.create_future(), due_s)
        self._waiting.append(added)
        self._know(added)
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
        self._know(ack)

    def interrupt(self) -> None:
        """The stream is gone: what was sent and not answered is next. What came over it comes again by itself."""
        for each in self.unanswered():
            each.held_back.clear()
        self._waiting.extendleft(reversed(self._sent.values()))
        self._sent.clear()

    def about(self, position: Position) -> list[Acknowledging]:
        """Those that acknowledge messages of this entry."""
        found = list(self._by_entry.get(position, ()))
        if self._through is not None and position <= self._through.position:
            found += [each for each, through in self._cumulative.items() if position <= through.position]
        return found

    def unanswered(self) -> list[Acknowledging]:
        """All that are not answered."""
        return [*self._sent.values(), *self._waiting]

    def _know(self, ack: Acknowledging) -> None:
        if ack.through is not None:
            self._cumulative[ack] = ack.through
            self._through = ack.through if self._through is None else max(self._through, ack.through)
        for position in {each.position for each in ack.ids}:
            self._by_entry.setdefault(position, {})[ack] = None

    def _forget(self, ack: Acknowledging) -> None:
        self._cumulative.pop(ack, None)
        if not self._cumulative:
            self._through = None
        for position in {each.position for each in ack.ids}:
            known = self._by_entry.get(position, {})
            known.pop(ack, None)
            if not known:
                self._by_entry.pop(position, None)


def individual(messages: Sequence[Message | Received], *, is_by_key: bool) -> list[pb.Ack]:
    """Acknowledgements of these messages, an entry's together.

    Where an entry is shared by keys each message is named, though it be all of them: the entry as a whole would mean
    what the broker has given on the stream by which that comes, and behind a broken one it may be less.
    """
    indexes: dict[Position, set[int]] = {}
    sizes: dict[Position, int] = {}
    for message in messages:
        part = message.part if is_by_key else None
        named = indexes.setdefault(message.id.position, set())
        named.update((message.id.batch_index,) if part is None else part.indexes)
        sizes[message.id.position] = message.batch_size if part is None else part.messages
    return [_ack(position, sorted(found), sizes[position], is_by_key) for position, found in indexes.items()]


def cumulative(message: Message | Received) -> pb.Ack:
    """The acknowledgement of a message and everything before it."""
    index, size = message.id.batch_index, message.batch_size
    ack = _ack(message.id.position, [] if index == size - 1 else [index], size)
    ack.is_cumulative = True
    return ack


def _ack(position: Position, indexes: Sequence[int], size: int, names_all: bool = False) -> pb.Ack:
    where = pb.Position(ledger=position.ledger, entry=position.entry)
    if not indexes or size == 1 or (len(indexes) == size and not names_all):
        return pb.Ack(position=where)
    if indexes[-1] >= size:
        raise InvalidRequest(f"message {indexes[-1]} of the batch of {size} at {position}")
    return pb.Ack(position=where, batch=indexes, batch_size=size)
