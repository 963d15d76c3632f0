"""What a service is asked to do, piece by piece."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Work(ABC):
    """One kind of work on one service. Pieces are independent of each other; many are under way at once."""

    kind: str
    """Whose rates are meant: one of those of `profiles`."""
    text: str
    """What is done, for people."""
    under_way_max: int

    @abstractmethod
    async def prepare(self) -> None:
        """Makes what is needed. UsageError where something is there already that is not to be touched."""

    @abstractmethod
    async def do(self, number: int) -> str:
        """One piece, from the beginning to the answer; says which it was: a key, or an id."""

    @abstractmethod
    async def clear(self) -> None:
        """Removes all that was made, also where `prepare` got only half-way."""
