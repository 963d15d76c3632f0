"""The owners of all segments, without brokers: what leaders ask of them is done at once, or fails as a test says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from controller.operations import Bound, Start
from support.world import Process
from txn.model.errors import SegmentUnavailable


@dataclass
class FakeSegment:
    """A segment: whether it takes messages, and where its cursors are."""

    cursors: dict[str, int | Bound | Start] = field(default_factory=dict)
    is_sealed: bool = False
    backlogs: Counter[str] = field(default_factory=Counter)
    claim: tuple[int, bool] = (0, True)
    """The greatest claim that it has heard of, and whether that was given back."""


class Cluster:
    """All segments there are; every process asks the same."""

    def __init__(self) -> None:
        self.segments: dict[str, FakeSegment] = {}
        self.calls: list[tuple[str, ...]] = []
        self.failures: list[tuple[str, Exception]] = []
        """What the next calls of a name fail with, having done nothing."""
        self.watchers: list[Callable[[], None]] = []
        """They look before and behind every call."""

    def counted(self, method: str) -> int:
        return sum(call[0] == method for call in self.calls)

    @property
    def open(self) -> set[str]:
        """The segments that take messages."""
        return {name for name, each in self.segments.items() if not each.is_sealed}


class Work:
    """`SegmentWork` as one process has it: nothing of a process that is dead reaches anybody."""

    def __init__(self, cluster: Cluster, process: Process) -> None:
        self.cluster = cluster
        self._process = process

    async def _call(self, method: str, *arguments: str) -> None:
        self._look()
        await asyncio.sleep(0)
        self._look()
        if self._process.store.line.is_closed:
            raise SegmentUnavailable("this process is dead")
        self.cluster.calls.append((method, *arguments))
        for place, (name, error) in enumerate(self.cluster.failures):
            if name == method:
                del self.cluster.failures[place]
                raise error

    def _look(self) -> None:
        for watcher in self.cluster.watchers:
            watcher()

    async def create(self, segment: str, subscriptions: Collection[str]) -> None:
        await self._call("create", segment)
        made = self.cluster.segments.setdefault(segment, FakeSegment())
        for name in subscriptions:
            await self._call("cursor", segment, name)
            made.cursors.setdefault(name, Start.EARLIEST)

    async def seal(self, segment: str) -> None:
        await self._call("seal", segment)
        self.cluster.segments[segment].is_sealed = True

    async def delete(self, segment: str) -> None:
        await self._call("delete", segment)
        self.cluster.segments.pop(segment, None)

    async def subscribe(self, segment: str, subscription: str, start: Start) -> None:
        await self._call("subscribe", segment, subscription)
        self.cluster.segments[segment].cursors.setdefault(subscription, start)

    async def unsubscribe(self, segment: str, subscription: str) -> None:
        await self._call("unsubscribe", segment, subscription)
        if segment in self.cluster.segments:
            self.cluster.segments[segment].cursors.pop(subscription, None)

    async def seek(self, segment: str, subscription: str, to: int | Bound) -> None:
        await self._call("seek", segment, subscription, str(to))
        if segment in self.cluster.segments and subscription in self.cluster.segments[segment].cursors:
            self.cluster.segments[segment].cursors[subscription] = to

    async def set_claim(self, segment: str, claim: int, is_released: bool) -> None:
        await self._call("claim", segment, str(claim), str(is_released))
        found = self.cluster.segments.get(segment)
        if found is not None and claim >= found.claim[0]:
            found.claim = (claim, is_released)

    async def backlogs(self, segment: str) -> dict[str, int]:
        await self._call("backlogs", segment)
        found = self.cluster.segments.get(segment)
        return {} if found is None else {name: found.backlogs[name] for name in found.cursors}

    async def backlog(self, segment: str, subscription: str) -> int | None:
        await self._call("backlog", segment, subscription)
        found = self.cluster.segments.get(segment)
        return None if found is None or subscription not in found.cursors else found.backlogs[subscription]
