"""Which messages of which producers a segment has, so that what is sent again is not appended again.

A producer numbers its messages. A number is *taken* from the moment its message stands in line; it is free again when
the message was not written, or its transaction was aborted. So a number that is sent again is a duplicate exactly if it
was taken before, in whatever order numbers come. What an open transaction has taken is remembered with it: only its
outcome says whether it stays.

A producer's resend has the same batches as the original, so a batch is judged by its first number.

Everything is bounded. Of numbers with many gaps between them the oldest gaps count as taken; of many producers those
that were silent for longest are forgotten, and what they sent long ago would be taken for new.

Nothing here knows of time, tasks or stores.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from txn.model.errors import RecordDamaged
from txn.model.fields import decoded_fields
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.buffer.numbers import Interval, Numbers

FORMAT = 1
PRODUCERS_MAX = 10_000
"""Producers that one segment remembers."""
INTERVALS_MAX = 100
"""Of taken numbers of one producer; beyond, the oldest gaps are closed."""
HELD_INTERVALS_MAX = 1_000
"""Of the numbers that one open transaction has taken of one producer; beyond, it can take no more."""
SNAPSHOT_BYTES_MAX = 512 << 10
"""What a snapshot may take; every store takes records of that size. Who was silent for longest is left out first."""


class Verdict(Enum):
    """What a number is."""

    NEW = "new"
    DUPLICATE = "duplicate"
    UNDECIDED = "undecided"
    """Another open transaction has taken it, and only its outcome says."""
    SCATTERED = "scattered"
    """New, but its transaction has taken too many numbers with gaps between them (HELD_INTERVALS_MAX)."""


class Taken(NamedTuple):
    """Numbers that a message takes."""

    producer: str
    first: int
    last: int
    txn_id: TxnId | None


class _Producer:
    """The numbers of one producer."""

    __slots__ = ("held", "taken")

    def __init__(self) -> None:
        self.taken = Numbers()
        self.held: dict[TxnId, Numbers] = {}
        """Which of them are those of open transactions."""


class ProducerStates:
    """All producers of a segment, the one that was silent for longest first."""

    def __init__(self) -> None:
        self._producers: OrderedDict[str, _Producer] = OrderedDict()
        self._holders: dict[TxnId, set[str]] = {}

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def transactions(self) -> list[TxnId]:
        """Those that hold numbers, and whose outcome matters therefore."""
        return list(self._holders)

    def judge(self, message: Taken) -> Verdict:
        """What a message is that wants to stand in line."""
        producer = self._producers.get(message.producer)
        if producer is None:
            return Verdict.NEW
        if message.first <= producer.taken.last and message.first in producer.taken:
            for txn_id, held in producer.held.items():
                if txn_id != message.txn_id and message.first in held:
                    return Verdict.UNDECIDED
            return Verdict.DUPLICATE
        held_here = producer.held.get(message.txn_id) if message.txn_id is not None else None
        if held_here is not None and len(held_here) >= HELD_INTERVALS_MAX and message.first != held_here.last + 1:
            return Verdict.SCATTERED
        return Verdict.NEW

    def last_stored(self, name: str, under_way: Iterable[Taken]) -> int | None:
        """The greatest number of a producer but for those of messages under way; None if there is none."""
        producer = self._producers.get(name)
        if producer is None:
            return None
        taken = producer.taken.copy()
        for message in under_way:
            taken.remove(message.first, message.last)
        return taken.last if len(taken) else None

    def is_undecided(self, name: str) -> bool:
        """Whether open transactions hold numbers of a producer."""
        producer = self._producers.get(name)
        return producer is not None and any(len(held) for held in producer.held.values())

    def take(self, message: Taken) -> None:
        """The message stands in line, or was found in the log."""
        name, first, last, txn_id = message
        producer = self._producers.get(name)
        if producer is None:
            producer = self._producers[name] = _Producer()
            if len(self._producers) > PRODUCERS_MAX:
                self._forget_oldest()
        else:
            self._producers.move_to_end(name)
            if first <= producer.taken.last:
                # It was free, so whoever held it was aborted; a log that is read again shows the entry before the end.
                for held in producer.held.values():
                    held.remove(first, last)
        producer.taken.add(first, last)
        if len(producer.taken) > INTERVALS_MAX:
            producer.taken.fill_oldest(INTERVALS_MAX)
        if txn_id is not None:
            producer.held.setdefault(txn_id, Numbers()).add(first, last)
            self._holders.setdefault(txn_id, set()).add(name)

    def free(self, message: Taken) -> None:
        """The message was not written."""
        producer = self._producers.get(message.producer)
        if producer is not None:
            producer.taken.remove(message.first, message.last)
            if message.txn_id is not None and message.txn_id in producer.held:
                producer.held[message.txn_id].remove(message.first, message.last)

    def conclude(self, txn_id: TxnId, *, is_aborted: bool) -> None:
        """A transaction has ended: what it has taken stays so, or is free."""
        for name in self._holders.pop(txn_id, ()):
            producer = self._producers.get(name)
            held = producer.held.pop(txn_id, None) if producer is not None else None
            if producer is not None and held is not None and is_aborted:
                for first, last in held:
                    producer.taken.remove(first, last)

    def _forget_oldest(self) -> None:
        name, producer = self._producers.popitem(last=False)
        for txn_id in producer.held:
            holders = self._holders.get(txn_id)
            if holders is not None:
                holders.discard(name)

    # -- as it is stored

    def encode(self, position: Position, under_way: Iterable[Taken]) -> bytes:
        """What the entries before a position say; messages that are under way are not among them."""
        without: dict[str, list[Taken]] = {}
        for message in under_way:
            without.setdefault(message.producer, []).append(message)
        encoded: list[str] = []
        left = SNAPSHOT_BYTES_MAX
        for name in reversed(self._producers):
            text = _encoded(name, self._producers[name], without.get(name, ()))
            left -= len(text) + 1
            if left < 0:
                break
            encoded.append(text)
        head = json.dumps({"format": FORMAT, "position": str(position)}, separators=(",", ":"))
        return f'{head[:-1]},"producers":[{",".join(reversed(encoded))}]}}'.encode()

    @classmethod
    def decode(cls, value: bytes) -> tuple[ProducerStates, Position]:
        """Reads what `encode` wrote: the states, and the position before which they hold."""
        fields = decoded_fields("snapshot of a segment's producers", value, FORMAT)
        states = cls()
        try:
            position = Position.parse(fields["position"])
            for name, taken, held in fields["producers"]:
                producer = states._producers[str(name)] = _Producer()
                producer.taken = Numbers(_intervals(taken))
                for text, numbers in held.items():
                    txn_id = TxnId.parse(text)
                    producer.held[txn_id] = Numbers(_intervals(numbers))
                    states._holders.setdefault(txn_id, set()).add(str(name))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise RecordDamaged(f"a snapshot of producers says {value[:200]!r}: {error!r}") from error
        return states, position


def _encoded(name: str, producer: _Producer, without: Iterable[Taken]) -> str:
    taken, held = producer.taken, producer.held
    if without:
        taken, held = taken.copy(), {txn_id: numbers.copy() for txn_id, numbers in held.items()}
        for message in without:
            taken.remove(message.first, message.last)
            if message.txn_id in held:
                held[message.txn_id].remove(message.first, message.last)
    fields: list[Any] = [name, list(taken), {str(txn_id): list(each) for txn_id, each in held.items() if len(each)}]
    return json.dumps(fields, separators=(",", ":"))


def _intervals(pairs: Iterable[tuple[int, int]]) -> Iterator[Interval]:
    for first, last in pairs:
        if not 0 <= int(first) <= int(last):
            raise ValueError(f"numbers {first} to {last}")
        yield Interval(int(first), int(last))
