"""One follower for all who want the same: it begins with the first of them, and ends with the last."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from controller.watches.errors import TooManyWatches, WatchesEnded
from txn.segment.bell import Bell

KeyT = TypeVar("KeyT", bound=Hashable)


class Follower(ABC):
    """Follows the store for any number of sessions."""

    def __init__(self) -> None:
        self.bell = Bell()
        """Rung when it has more to tell, and when it has failed."""
        self.failure: BaseException | None = None
        """Why it follows no more."""

    @abstractmethod
    async def follow(self) -> None:
        """Follows until cancelled."""

    def fail(self, failure: BaseException) -> None:
        """All sessions are to raise this."""
        self.failure = failure
        self.bell.ring()

    def check(self) -> None:
        """Raises what it has failed with, if it has."""
        if self.failure is not None:
            raise self.failure


FollowerT = TypeVar("FollowerT", bound=Follower)


class Lease(Generic[KeyT, FollowerT]):
    """A follower while somebody needs it."""

    def __init__(self, key: KeyT, follower: FollowerT) -> None:
        self.key = key
        self.follower = follower
        self.holders = 0
        self.task = asyncio.ensure_future(follower.follow())


class Shared(Generic[KeyT, FollowerT]):
    """Followers by what they follow, for a bounded number of sessions."""

    def __init__(self, make: Callable[[KeyT], FollowerT], sessions_max: int, limit: str) -> None:
        self._make = make
        self._sessions_max = sessions_max
        self._limit = limit
        """The name of the limit."""
        self._leases: dict[KeyT, Lease[KeyT, FollowerT]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.sessions = 0

    def __len__(self) -> int:
        return len(self._leases)

    def take(self, key: KeyT) -> Lease[KeyT, FollowerT]:
        """One session more that needs this follower."""
        if self.sessions >= self._sessions_max:
            raise TooManyWatches(
                f"this broker serves {self.sessions} such watches: at most {self._sessions_max} ({self._limit})"
            )
        lease = self._leases.get(key)
        if lease is None:
            lease = self._leases[key] = Lease(key, self._make(key))
            self._tasks.add(lease.task)
            lease.task.add_done_callback(partial(self._ended, lease))
        lease.holders += 1
        self.sessions += 1
        return lease

    def give_back(self, lease: Lease[KeyT, FollowerT]) -> None:
        """A session that took it needs it no more."""
        lease.holders -= 1
        self.sessions -= 1
        assert lease.holders >= 0, "each session gives back what it took, once"
        if not lease.holders:
            lease.task.cancel()
            self._forget(lease)

    def _forget(self, lease: Lease[KeyT, FollowerT]) -> None:
        if self._leases.get(lease.key) is lease:
            del self._leases[lease.key]

    def _ended(self, lease: Lease[KeyT, FollowerT], task: asyncio.Task[None]) -> None:
        """A follower that has failed fails its sessions; who comes after them begins anew."""
        self._tasks.discard(task)
        self._forget(lease)
        failure = None if task.cancelled() else task.exception()
        lease.follower.fail(failure or WatchesEnded("this broker is about to end: ask another one"))

    async def close(self) -> None:
        """Ends them all; sessions that are left are told."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
