"""All subscriptions of a topic, on its leader and for as long as it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType, TracebackType
from typing import Self

from controller.layout import Layout, TopicName
from controller.subscriptions.coordinator import Attachment, Coordinator, Options, Outgoing
from controller.subscriptions.errors import DamagedSubscription, LimitReached, WrongKind
from controller.subscriptions.messages import EndReason
from controller.subscriptions.records import SubscriptionKind
from controller.subscriptions.store import Stored, SubscriptionStore
from controller.topics import NotLeader, SubscriptionNotFound, paths
from metastore.coordination import Grant, Pace
from txn.segment.bell import Bell

SUBSCRIPTIONS_MAX = 1_000
"""Of a topic."""
NOTHING: frozenset[int] = frozenset()


class Subscriptions:
    """`async with Subscriptions(grant, topic, layout, drained, pace=pace) as subscriptions`: restored in the block.

    `drained` says for each subscription which segments it has wholly acknowledged. At the end of the block everybody
    who is connected is told to go elsewhere; nothing that is durable changes. `members_changed` is called when
    consumers have come to a subscription, or are gone from it for good.
    """

    def __init__(
        self,
        grant: Grant,
        topic: TopicName,
        layout: Layout,
        drained: Mapping[str, Collection[int]] | None = None,
        *,
        pace: Pace,
        options: Options | None = None,
        members_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.topic = topic
        self._store = SubscriptionStore(grant, topic, pace)
        self._options = options or Options()
        self._members_changed = members_changed
        self._layout = layout
        self._drained: dict[str, Collection[int]] = dict(drained or {})
        self._kinds: dict[str, SubscriptionKind] = {}
        self._damaged: dict[str, DamagedSubscription] = {}
        self._coordinators: dict[str, Coordinator] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changing = asyncio.Lock()
        """Held while a subscription is created or deleted."""
        self._bell = Bell()
        self._failure: BaseException | None = None
        self.kinds: Mapping[str, SubscriptionKind] = MappingProxyType(self._kinds)
        """The subscriptions that can be read, and how they read."""

    @property
    def names(self) -> frozenset[str]:
        """All that are recorded: of every kind (H4), and those whose record cannot be read. New segments need them."""
        return frozenset(self._kinds.keys() | self._damaged.keys())

    def coordinator(self, name: str) -> Coordinator:
        """The coordinator of a subscription whose consumers divide the segments."""
        found = self._coordinators.get(name)
        if found is not None:
            return found
        if name in self._damaged:
            raise self._damaged[name]
        if name not in self._kinds:
            raise SubscriptionNotFound(f"{self.topic} has no subscription {name!r}: create it first")
        if self._kinds[name].is_divided:
            raise NotLeader(f"subscription {name!r} of {self.topic} ends here: look who leads the topic")
        raise WrongKind(
            f"subscription {name!r} of {self.topic} is a {self._kinds[name].value}: its consumers do not register, "
            "each of them reads all segments"
        )

    def consumers(self) -> Mapping[str, int]:
        """How many consumers each divided subscription has, those in grace as well: what the topic is scaled for."""
        return {name: len(each.sessions.names) for name, each in self._coordinators.items()}

    # -- subscriptions

    def check_room(self, name: str) -> None:
        """LimitReached if there can be no other subscription."""
        if name not in self.names and len(self.names) >= SUBSCRIPTIONS_MAX:
            raise LimitReached(
                f"{self.topic} has {SUBSCRIPTIONS_MAX} subscriptions (SUBSCRIPTIONS_MAX): delete some first"
            )

    async def create(self, name: str, kind: SubscriptionKind) -> None:
        """Records a subscription: durable when this returns. One that is recorded already stays as it is.

        WrongKind if that one is of another kind. Its cursors are the caller's to make, before and behind this.
        """
        self.check_room(name)
        async with self._changing:
            stored = await self._store.create(name, kind)
            if name not in self._kinds:
                self._begin(name, stored)

    async def delete(self, name: str) -> None:
        """Removes a subscription with all its consumers, who are told. Nothing if there is none."""
        paths.checked(name, "subscription")
        async with self._changing:
            await self._end(name, EndReason.DELETED, SubscriptionNotFound(f"{name!r} of {self.topic} was deleted"))
            await self._store.delete(name)
            self._kinds.pop(name, None)
            self._damaged.pop(name, None)
            self._drained.pop(name, None)

    async def join(self, name: str, consumer: str, kind: SubscriptionKind, outgoing: Outgoing) -> Attachment:
        """A consumer comes, or comes back, to a subscription of that kind. See `Coordinator.join`."""
        coordinator = self.coordinator(name)
        if self._kinds[name] is not kind:
            raise WrongKind(f"subscription {name!r} of {self.topic} is a {self._kinds[name].value}, not a {kind.value}")
        return await coordinator.join(consumer, outgoing)

    # -- what changes for all

    def on_layout(self, layout: Layout) -> None:
        """The layout has changed, durably. `settled` waits until everybody knows."""
        self._layout = layout
        for name, each in self._coordinators.items():
            each.divide(layout, self._drained.get(name, NOTHING))

    def on_drained(self, name: str, segment_ids: Collection[int]) -> None:
        """Exactly these segments are drained now, for a subscription: a seek takes some away again."""
        self._drained[name] = frozenset(segment_ids)
        if name in self._coordinators:
            self._coordinators[name].divide(self._layout, self._drained[name])

    async def settled(self) -> None:
        """Returns when all that has changed so far is durable and told."""
        for each in list(self._coordinators.values()):
            await each.settled()

    async def wait_failed(self) -> None:
        """Raises what a subscription's work has ended with: Deposed, or what the store refuses. Else never returns."""
        await self._bell.until(lambda: self._failure is not None)
        assert self._failure is not None
        raise self._failure

    # -- from beginning to end

    async def __aenter__(self) -> Self:
        for name, stored in (await self._store.restore()).items():
            if isinstance(stored, DamagedSubscription):
                self._damaged[name] = stored
            else:
                self._begin(name, stored)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        moved = NotLeader(f"{self.topic} is led by somebody else, or will be: look who leads it")
        await asyncio.gather(*(self._end(name, EndReason.MOVED, moved) for name in list(self._tasks)))

    def _begin(self, name: str, stored: Stored) -> None:
        self._damaged.pop(name, None)
        self._kinds[name] = stored.record.kind
        if not stored.record.kind.is_divided:
            return
        drained = self._drained.get(name, NOTHING)
        coordinator = Coordinator(
            self._store, name, stored, self._layout, drained, self._options, self._members_changed
        )
        task = asyncio.ensure_future(coordinator.run())
        self._coordinators[name], self._tasks[name] = coordinator, task
        task.add_done_callback(lambda _: self._ended(name, task))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """A subscription's work is over by itself: its record was removed, or nothing more can be done."""
        if self._tasks.get(name) is not task or task.cancelled():
            return  # it was ended from here, or with everything
        del self._tasks[name], self._coordinators[name]
        failure = task.exception()
        if isinstance(failure, SubscriptionNotFound):
            self._kinds.pop(name, None)
        else:
            self._failure = self._failure or failure
            self._bell.ring()

    async def _end(self, name: str, reason: EndReason, failure: Exception) -> None:
        task, coordinator = self._tasks.pop(name, None), self._coordinators.pop(name, None)
        if task is None or coordinator is None:
            return
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # it had just ended by itself: there is nobody left who wants to know why
        coordinator.end(reason, failure)
