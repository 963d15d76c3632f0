"""One append: which messages get which positions, and what stays void. Pure, but for the future that tells its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from txn.model.errors import TxnRetriable
from txn.model.position import Position
from txn.segment.buffer.line import Sending
from txn.segment.buffer.participation import Participation


class Span(NamedTuple):
    """Where the entries of a transaction are in a round."""

    participation: Participation
    first: Position
    last: Position


class Round:
    """Messages that are written together, at positions one behind the other."""

    def __init__(self, first: Position, sendings: Sequence[Sending], length: int | None = None) -> None:
        self.first = first
        self.end = Position(first.ledger, first.entry + (len(sendings) if length is None else length))
        """Behind its last position."""
        self.sendings = sendings
        self.shares: dict[Participation, list[int]] = {}
        """The places of each transaction, in order; the transactions in the order of their first places."""
        self.refusals: dict[int, Exception] = {}
        """The places that stay void, and why."""
        self.bytes = 0
        self.confirmation: asyncio.Future[Position] | None = None
        """None until it is appended."""
        for place, sending in enumerate(sendings):
            if sending.participation is not None:
                self.shares.setdefault(sending.participation, []).append(place)

    def position(self, place: int) -> Position:
        """The position of a place."""
        return Position(self.first.ledger, self.first.entry + place)

    def refuse(self, failures: Mapping[Participation, Exception]) -> dict[str, Exception]:
        """These transactions' messages do not get in; and why producers have to stop for a while.

        Where a message may be sent again, none behind it of the same producer gets in before it.
        """
        stopped: dict[str, Exception] = {}
        for place, sending in enumerate(self.sendings):
            error = None if sending.participation is None else failures.get(sending.participation)
            error = error or stopped.get(sending.producer)
            if error is not None:
                self.refusals[place] = error
                if isinstance(error, TxnRetriable) and sending.producer:
                    stopped.setdefault(sending.producer, error)
        return stopped

    @property
    def is_void(self) -> bool:
        """Whether nothing is left to be written."""
        return len(self.refusals) == len(self.sendings)

    def data(self, void: bytes) -> list[bytes]:
        """What is to be appended."""
        data = [sending.data for sending in self.sendings]
        for place in self.refusals:
            data[place] = void
        return data

    def written(self) -> Iterator[tuple[Sending, Position]]:
        """The messages that get in, and where."""
        for place, sending in enumerate(self.sendings):
            if place not in self.refusals:
                yield sending, self.position(place)

    def refused(self) -> Iterator[tuple[Sending, Exception]]:
        """The messages that do not."""
        for place, error in self.refusals.items():
            yield self.sendings[place], error

    def spans(self) -> Iterator[Span]:
        """Where the entries of the transactions are that get in."""
        for participation, places in self.shares.items():
            kept = [place for place in places if place not in self.refusals] if self.refusals else places
            if kept:
                yield Span(participation, self.position(kept[0]), self.position(kept[-1]))
