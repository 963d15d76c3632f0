"""What producers, consumers and readers are to their client, and to whoever opens one: open until closed."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Self


class Member(ABC):
    """What a client closes when it is closed. A context manager that closes it."""

    @property
    @abstractmethod
    def running(self) -> asyncio.Task[None]:
        """Ends with it."""

    @abstractmethod
    async def wait_opened(self) -> None:
        """Returns when a broker has accepted it; raises what it is refused for."""

    @abstractmethod
    async def close(self) -> None:
        """Ends it in good order. May be called more than once."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
