"""Histories made by hand: each step takes the next ticks, so a test reads like what happened."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from enum import Enum

from txn.model.header import TxnState
from txn.model.position import Position
from txn_histories.checker import check
from txn_histories.history import History
from txn_histories.notes import (
    START,
    Acknowledging,
    AckOf,
    Begun,
    Delivery,
    Ending,
    Fate,
    Looked,
    Nacked,
    Send,
    Sighting,
    Trimming,
)
from txn_histories.violations import Findings

LEDGER = 1
LATE_MS = 1 << 40
"""A deadline that nobody reaches."""


def at(entry: int, ledger: int = LEDGER) -> Position:
    return Position(ledger, entry)


class Story:
    """A history that is told step by step. Segment `s`, producer `p` and subscription `sub` where none is named."""

    def __init__(self) -> None:
        self.history = History()
        self._ticks = itertools.count(1)
        self._places: dict[str, tuple[str, int]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._names = itertools.count(1)

    def tick(self) -> int:
        return next(self._ticks)

    def send(
        self,
        message: str,
        entry: int | None = None,
        *,
        segment: str = "s",
        txn: str | None = None,
        producer: str = "p",
        number: int | None = None,
        fate: Fate = Fate.DONE,
        is_duplicate: bool = False,
        count: int = 1,
        ledger: int = LEDGER,
    ) -> Send:
        """An attempt; where it was placed is told only if it is done, but remembered for readings."""
        if entry is not None:
            self._places[message] = (segment, entry)
        if number is None:
            number = self._numbers[segment, producer] = self._numbers.get((segment, producer), 0) + 1
        invoked, returned = self.tick(), self.tick()
        position = at(entry, ledger) if fate is Fate.DONE and entry is not None else None
        told = None if fate is Fate.UNKNOWN else returned
        send = Send(message, segment, producer, number, txn, invoked, told, fate, position, is_duplicate, count)
        self.history.sends.append(send)
        return send

    def begin(self, txn: str, deadline_ms: int | None = LATE_MS) -> None:
        self.history.begun.append(Begun(txn, self.tick(), deadline_ms))

    def end(
        self,
        txn: str,
        wanted: TxnState,
        outcome: TxnState | None,
        *,
        is_deadline: bool = False,
        invoked_ms: int = 0,
        returned_ms: int = 0,
    ) -> None:
        invoked = self.tick()
        returned = None if outcome is None else self.tick()
        ending = Ending(txn, wanted, invoked, returned, outcome, is_deadline, invoked_ms, returned_ms)
        self.history.endings.append(ending)

    def commit(self, txn: str) -> None:
        self.end(txn, TxnState.COMMITTED, TxnState.COMMITTED)

    def abort(self, txn: str) -> None:
        self.end(txn, TxnState.ABORTED, TxnState.ABORTED)

    def look(self, txn: str, state: TxnState) -> None:
        self.history.looks.append(Looked(txn, state, self.tick(), self.tick()))

    def ack(
        self,
        *acks: int | AckOf,
        txn: str | None = None,
        fate: Fate = Fate.DONE,
        subscription: str = "sub",
    ) -> None:
        invoked, returned = self.tick(), self.tick()
        told = None if fate is Fate.UNKNOWN else returned
        whole = tuple(AckOf(at(each)) if isinstance(each, int) else each for each in acks)
        self.history.acks.append(Acknowledging("s", subscription, whole, txn, invoked, told, fate))

    def nack(self, *entries: int) -> None:
        self.history.nacks.append(Nacked("s", "sub", tuple(map(at, entries)), self.tick()))

    def trim(self, before: int) -> None:
        self.history.trimmings.append(Trimming("s", at(before), self.tick()))
        self.history.rest.oldest["s"] = at(before)

    def open(
        self,
        subscription: str | None = None,
        *,
        segment: str = "s",
        is_final: bool = False,
        is_shared: bool = False,
        start: Position = START,
        term: int | None = None,
    ) -> Sighting:
        name = f"number {next(self._names)}"
        sighting = Sighting(name, segment, subscription, self.tick(), start, term, is_shared, is_final)
        self.history.sightings.append(sighting)
        return sighting

    def show(self, sighting: Sighting, *messages: str, entry: int | None = None, skipped: tuple[int, ...] = ()) -> None:
        """Each where it was placed, or at another entry."""
        for message in messages:
            place = self._places.get(message, ("", 0))[1] if entry is None else entry
            sighting.deliveries.append(Delivery(at(place), message, self.tick(), self.tick(), skipped))

    def end_with(
        self,
        segment: str,
        messages: Sequence[str],
        subscription: str | None = None,
        skipped: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        """A final reading, or a final consumer."""
        final = self.open(subscription, segment=segment, is_final=True)
        for message in messages:
            self.show(final, message, skipped=(skipped or {}).get(message, ()))

    def findings(self) -> Findings:
        return check(self.history)

    def lies(self) -> set[Enum]:
        return set(self.findings().lies)
