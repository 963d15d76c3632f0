"""What a client knows of where things are: which brokers there are, and who owns which segment."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

BROKERS_MAX = 1_000
"""Addresses that are kept; those that were heard of first give way."""
OWNERS_MAX = 10_000
"""Owners that are remembered; those that were asked least recently are forgotten, and found again."""


class Owner(NamedTuple):
    """Who owns a segment, and since which term."""

    address: str
    term: int


class Routes:
    """Guesses that a broker corrects: a wrong one costs a redirect, and nothing else."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._given = tuple(addresses)
        self._brokers: OrderedDict[str, None] = OrderedDict.fromkeys(self._given)
        self._owners: OrderedDict[str, Owner] = OrderedDict()

    @property
    def brokers(self) -> list[str]:
        """All that are known, the one to ask first in front."""
        return list(self._brokers)

    def knows(self, address: str) -> bool:
        """Whether that is one of the brokers."""
        return address in self._brokers

    def anyone(self) -> str:
        """A broker to ask."""
        return next(iter(self._brokers))

    def owner(self, segment: str) -> str:
        """Who is to be asked about a segment."""
        known = self._owners.get(segment)
        if known is None:
            return self.anyone()
        self._owners.move_to_end(segment)
        return known.address

    def learn_brokers(self, addresses: Iterable[str]) -> None:
        """These are there now; those of the URL are kept as well, as the last ones to ask."""
        told = dict.fromkeys(addresses)
        kept = [each for each in self._brokers if each in told]
        new = [each for each in told if each not in self._brokers]
        given = [each for each in self._given if each not in told]
        self._brokers = OrderedDict.fromkeys([*kept, *new][: BROKERS_MAX - len(given)] + given)

    def learn_owner(self, segment: str, address: str, term: int) -> bool:
        """Whether that is news; what an earlier term says is not."""
        known = self._owners.get(segment)
        if known is not None and (term < known.term or known == (address, term)):
            return False
        self._owners[segment] = Owner(address, term)
        self._owners.move_to_end(segment)
        if len(self._owners) > OWNERS_MAX:
            self._owners.popitem(last=False)
        return True

    def learn_leader(self, topic: str, address: str) -> bool:
        """Whether it is news who leads a topic. Topics are told from segments by their names; terms are not told."""
        known = self._owners.get(topic)
        return self.learn_owner(topic, address, 0 if known is None else known.term)

    def note_failure(self, address: str, segment: str | None = None) -> None:
        """There it did not work: others are asked first."""
        if address in self._brokers:
            self._brokers.move_to_end(address)
        if segment is not None and (known := self._owners.get(segment)) is not None and known.address == address:
            del self._owners[segment]
