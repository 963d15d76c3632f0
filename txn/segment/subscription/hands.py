"""Whose hands messages were in last that are in nobody's now: they were taken by somebody, and taken back. Bounded.

Who has taken a message may show it to his application at any time, also when his stream is gone: he may not know yet.
So nobody may acknowledge it but who has taken it last. Whoever had it before is too late.

Consumers tell by their *instance* that they are the same on another stream. Of one without nobody knows that, and when
he has gone what he had is anybody's to acknowledge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from txn.model.position import Position
from txn.segment.cursor import Ack, CursorState
from txn.segment.subscription.claims import NOTHING
from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.errors import AckTooLate
from txn.segment.subscription.values import Identity


class LastHands:
    """Of the messages of entries who has taken them last."""

    def __init__(self, entries_max: int) -> None:
        self._last: dict[Position, dict[Identity | Consumer, int]] = {}
        """By entry and by consumer: which messages, bit 0 is the first."""
        self._entries_max = entries_max

    def note(self, position: Position, consumer: Consumer, bits: int) -> None:
        """These messages come back from who had taken them. Of too many entries the first ones are forgotten."""
        if not bits or _is_unknown(_who(consumer)):
            return
        self.taken(position, bits)
        known = self._last.setdefault(position, {})
        known[_who(consumer)] = known.get(_who(consumer), 0) | bits
        if len(self._last) > self._entries_max:
            del self._last[next(iter(self._last))]

    def taken(self, position: Position, bits: int) -> None:
        """Somebody has taken them again, or they are acknowledged."""
        known = self._last.get(position)
        if known is None:
            return
        left = {who: found & ~bits for who, found in known.items() if found & ~bits}
        if left:
            self._last[position] = left
        else:
            del self._last[position]

    def of(self, position: Position, consumer: Consumer) -> int:
        """Which messages this consumer had last."""
        return self._last.get(position, {}).get(_who(consumer), 0)

    def of_others(self, position: Position, consumer: Consumer) -> int:
        """Which messages somebody else had last."""
        known = self._last.get(position, {})
        return sum(bits for who, bits in known.items() if who != _who(consumer) and not _is_unknown(who))


def _who(consumer: Consumer) -> Identity | Consumer:
    return consumer.asking.identity or consumer


def _is_unknown(who: Identity | Consumer) -> bool:
    """Whether it cannot be told who that is by now."""
    return isinstance(who, Consumer) and who.has_ended


def acknowledged_bits(cursor: CursorState, position: Position) -> int:
    """Which messages of an entry are acknowledged; -1: all, however many it has."""
    return -1 if cursor.is_acknowledged(position) else cursor.batches.get(position, NOTHING).bits


def divided(ack: Ack, others: int, messages: int | None) -> tuple[list[Ack], list[Ack]]:
    """What of an acknowledgement is not about these messages, and what is. One of a whole entry is not divided where
    nobody knows how many messages that has."""
    if not others or ack.is_cumulative:
        return [ack], []
    if not ack.batch:
        if messages is None:
            return [], [ack]
        ack = Ack(ack.position, batch=tuple(range(messages)), batch_size=messages)
    parts: tuple[list[int], list[int]] = ([], [])
    for index in ack.batch:
        parts[others >> index & 1].append(index)
    free, late = ([replace(ack, batch=tuple(part))] if part else [] for part in parts)
    return free, late


def too_late(subscription: str, late: Iterable[Ack]) -> AckTooLate:
    """What is told to who acknowledges what is in others' hands."""
    found = list(late)
    where = ", ".join(str(ack.position) for ack in found[:8])
    return AckTooLate(
        f"messages of {len(found)} entries of {subscription!r} have come to another consumer by now, {where} first: he "
        "processes them anew. Outside of a transaction everything else is acknowledged"
    )
