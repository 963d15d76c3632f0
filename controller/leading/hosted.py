"""Segments at work: here, where this broker owns them, and else by asking the broker that does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import TypeVar

from controller.leading.drains import Drains
from controller.operations import Bound, OwnedWork, Start
from txn.hosting import Host, NoSuchSegment, OwnedElsewhere, Segment, SegmentExists
from txn.segment.subscription import InitialPosition, SubscriptionDeleted

REDIRECTS_MAX = 3
"""Brokers that are asked one after another; more are brokers that do not agree yet, and it is tried again later."""

Remote = Callable[[str], OwnedWork]
"""Segments at work at the broker with an address. That one asks nobody else: OwnedElsewhere is to be tried again."""

T = TypeVar("T")

_POSITIONS = {Start.EARLIEST: InitialPosition.EARLIEST, Start.LATEST: InitialPosition.LATEST}
_ENDS = {Bound.BEGINNING: InitialPosition.EARLIEST, Bound.END: InitialPosition.LATEST}


class HostedSegments:
    """`SegmentWork` at one broker. Without `remote` only what this broker owns, or can own, is worked on."""

    def __init__(self, host: Host, drains: Drains, remote: Remote | None = None) -> None:
        self._host = host
        self._drains = drains
        self._remote = remote

    async def create(self, segment: str, subscriptions: Collection[str]) -> None:
        """There is such a segment afterwards, with these cursors at its beginning, and somebody owns it."""
        with suppress(SegmentExists):  # it was asked for before
            await self._host.create(segment)

        async def here(owned: Segment) -> None:
            for name in subscriptions:
                await owned.subscribe(name, InitialPosition.EARLIEST)

        await self._at_owner(segment, here, lambda there: there.create(segment, subscriptions))

    async def seal(self, segment: str) -> None:
        """It takes no more entries; one that was taken away by force takes none either."""
        try:
            await self._at_owner(segment, lambda owned: owned.seal(), lambda there: there.seal(segment))
        except NoSuchSegment:
            return

    async def delete(self, segment: str) -> None:
        """It is on its way out; whoever owns it sees to its end."""
        try:
            await self._host.begin_deletion(segment)
        except NoSuchSegment:
            return

    async def subscribe(self, segment: str, subscription: str, start: Start) -> None:
        """It has such a cursor afterwards; one that is there stays where it is."""

        async def here(owned: Segment) -> None:
            await owned.subscribe(subscription, _POSITIONS[start])

        await self._at_owner(segment, here, lambda there: there.subscribe(segment, subscription, start))

    async def unsubscribe(self, segment: str, subscription: str) -> None:
        """It has no such cursor afterwards, and nothing is reported of it."""

        async def here(owned: Segment) -> None:
            await owned.unsubscribe(subscription)
            await self._drains.settle(segment, subscription)

        try:
            await self._at_owner(segment, here, lambda there: there.unsubscribe(segment, subscription))
        except NoSuchSegment:
            return

    async def seek(self, segment: str, subscription: str, to: int | Bound) -> None:
        """Sets a cursor; whether it has read the segment to its end is reported anew."""

        async def here(owned: Segment) -> None:
            found = owned.subscription(subscription)
            await found.seek(_ENDS[to] if isinstance(to, Bound) else await owned.position_of_time(to))
            await self._drains.settle(segment, subscription)

        try:
            await self._at_owner(segment, here, lambda there: there.seek(segment, subscription, to))
        except (NoSuchSegment, SubscriptionDeleted):
            return

    async def backlog(self, segment: str, subscription: str) -> int | None:
        """Entries that are not acknowledged; None if there is no such segment or cursor."""

        async def here(owned: Segment) -> int:
            found = owned.subscription(subscription)
            return 0 if found.is_drained else found.stats.backlog

        try:
            return await self._at_owner(segment, here, lambda there: there.backlog(segment, subscription))
        except (NoSuchSegment, SubscriptionDeleted):
            return None

    async def backlogs(self, segment: str) -> Mapping[str, int]:
        """The same of all its cursors, by subscription; nothing if there is no such segment."""

        async def here(owned: Segment) -> Mapping[str, int]:
            found = owned.subscriptions.items()
            return {name: 0 if each.is_drained else each.stats.backlog for name, each in found}

        try:
            return await self._at_owner(segment, here, lambda there: there.backlogs(segment))
        except NoSuchSegment:
            return {}

    async def set_claim(self, segment: str, claim: int, is_released: bool) -> None:
        """It has heard of this claim to produce; nothing if there is no such segment."""

        async def here(owned: Segment) -> None:
            await owned.set_claim(claim, is_released)

        try:
            await self._at_owner(segment, here, lambda there: there.set_claim(segment, claim, is_released))
        except NoSuchSegment:
            return

    async def _at_owner(
        self,
        segment: str,
        here: Callable[[Segment], Awaitable[T]],
        there: Callable[[OwnedWork], Awaitable[T]],
    ) -> T:
        """Works where the segment is. Who owns it by now may be known elsewhere sooner than here."""
        told: OwnedElsewhere | None = None
        for _ in range(REDIRECTS_MAX):
            try:
                owned = await self._host.get(segment)
            except OwnedElsewhere as error:
                if self._remote is None:
                    raise
                told = error if told is None or error.term >= told.term else told
            else:
                return await here(owned)
            try:
                return await there(self._remote(told.address))
            except OwnedElsewhere as error:
                told = error if error.term > told.term else told
        assert told is not None, "it was asked at least once"
        raise told
