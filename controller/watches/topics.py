"""The watch of a topic: its layout, its leader, who serves its segments, and its deletion."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from controller.layout import Layout, TopicName, TopicRecord
from controller.together import together
from controller.topics import paths
from controller.watches.owners import SegmentOwners
from controller.watches.pictures import Picture, TopicGone, TopicState
from controller.watches.sharing import Follower, Lease, Shared
from metastore.coordination import Backoff, ForeignRecord, Pace, View
from metastore.interface import ABSENT, MetadataStore, Record, Retriable, exactly
from txn.hosting import Owner
from txn.model.errors import RecordDamaged

logger = logging.getLogger("tidemark.watches")

TOPIC_SESSIONS_MAX = 20_000
"""Of one broker, of all topics together."""
OWNERS_PAUSE_S = 0.05
"""When a broker dies many segments change hands: that is told this long after the first of them, all at once."""

TopicEvent = TopicState | TopicGone


class TopicFollower(Follower):
    """Follows one topic for all its sessions here."""

    def __init__(self, store: MetadataStore, owners: SegmentOwners, topic: TopicName, pace: Pace) -> None:
        super().__init__()
        self.store = store
        self.topic = topic
        self.pace = pace
        self._owners = owners
        self.picture = Picture(topic)
        self.state: TopicState | None = None
        """What is told of it: one object for all sessions."""
        self.news = 0
        """How often the store has told something, be it that nothing is different."""
        self._views_to_come = 2
        self._have_owners_changed = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether the picture shows what there was at some time since it was made."""
        return not self._views_to_come

    async def wait_news(self, known: int) -> None:
        """Returns when there is news beyond what is known, or when there will be none."""
        await self.bell.until(lambda: self.news != known or self.failure is not None)

    async def follow(self) -> None:
        """Follows until cancelled."""
        self._owners.listen(self.topic, self._have_owners_changed.set)
        try:
            await together(self._follow_record(), self._follow_leader(), self._follow_owners())
        finally:
            self._owners.stop_listening(self.topic, self._have_owners_changed.set)

    async def _follow_record(self) -> None:
        async with self._view(self.topic.path) as view:
            for is_first in _once_true():
                await view.news()
                record = view.records.get(self.topic.path)
                self._show(self._owned(_recorded(self.picture, record)), is_first)

    async def _follow_leader(self) -> None:
        key = paths.controller_key(self.topic)
        async with self._view(key) as view:
            for is_first in _once_true():
                await view.news()
                self._show(self.picture.with_leader(_leader(view.records.get(key))), is_first)

    async def _follow_owners(self) -> None:
        while True:
            await self._have_owners_changed.wait()
            await self.pace.sleep(OWNERS_PAUSE_S)
            self._have_owners_changed.clear()
            self._show(self._owned(self.picture), False)

    def _view(self, key: str) -> View:
        return View(self.store, exactly(key), partition_key=paths.partition(self.topic), pace=self.pace)

    def _owned(self, picture: Picture) -> Picture:
        """The picture with the segments' owners as they are now."""
        segments = () if picture.record is None else picture.record.layout.segments.values()
        found = {
            each.segment_id: self._owners.find(
                each.legacy_topic or str(self.topic.segment(each.range, each.segment_id))
            )
            for each in segments
        }
        return picture.with_owners({segment_id: owner for segment_id, owner in found.items() if owner is not None})

    def _show(self, picture: Picture, is_first: bool) -> None:
        self._views_to_come -= is_first
        self.picture = picture
        self.state = self.state if picture.state == self.state else picture.state
        self.news += 1
        self.bell.ring()


class TopicSession:
    """An iterator of what becomes of a topic. To be used in `async with`, by one task at a time.

    `seen` is the version of the last state that the client was told elsewhere: nothing older is told. `otherwise` is
    told as the layout while there is no such topic: that of a topic of the old kind by the same name.
    """

    def __init__(
        self,
        shared: Shared[TopicName, TopicFollower],
        lease: Lease[TopicName, TopicFollower],
        seen: int,
        otherwise: Layout | None,
    ) -> None:
        self._shared = shared
        self._lease: Lease[TopicName, TopicFollower] | None = lease
        self._follower = lease.follower
        self._seen = seen
        self._otherwise = (
            TopicGone() if otherwise is None else TopicState(lease.follower.topic, TopicRecord(otherwise), ABSENT)
        )
        """What is told while there is no topic."""
        self._told: TopicEvent | None = None
        self._life = 0
        """Of the topic that was told last."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TopicEvent:
        """The newest state, as soon as it is another one than was told. Cancelling the wait loses nothing."""
        follower = self._follower
        while self._lease is not None:
            follower.check()
            if follower.is_ready:
                if self._told is None and follower.picture.record is None:
                    await self._look()
                    follower.check()
                event = self._next()
                if event is not None:
                    self._told = event
                    return event
            await follower.bell.wait()
        raise StopAsyncIteration

    async def _look(self) -> None:
        """Before it is said that there is no topic: one that is there already may not have been seen yet.

        Each time there is news it is looked for again, for what was found may be gone before it is ever seen.
        """
        follower, backoff = self._follower, Backoff(self._follower.pace)
        while follower.failure is None and follower.picture.record is None:
            news = follower.news
            try:
                found = await follower.store.get(follower.topic.path, partition_key=paths.partition(follower.topic))
            except Retriable as error:
                logger.info("looking for %s once more, after %s", follower.topic, error)
                await backoff.pause()
                continue
            if found is None or not found.value:
                return
            self._seen = max(self._seen, found.version.version_id)
            await follower.wait_news(news)

    def _next(self) -> TopicEvent | None:
        """What is to be told next; None if nothing is."""
        picture, event = self._follower.picture, self._follower.state or self._otherwise
        if picture.record is not None:
            if picture.version_id < self._seen:
                return None
            if isinstance(self._told, TopicState) and self._told.version_id != ABSENT and picture.life != self._life:
                return TopicGone()  # it was deleted and created in the meantime
        self._life = picture.life
        return None if event == self._told else event

    async def close(self) -> None:
        """Ends the session."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._shared.give_back(lease)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class TopicWatches:
    """The watches of topics of one broker. To be used in `async with`."""

    def __init__(
        self, store: MetadataStore, owners: SegmentOwners, pace: Pace, *, sessions_max: int = TOPIC_SESSIONS_MAX
    ) -> None:
        self._shared: Shared[TopicName, TopicFollower] = Shared(
            lambda topic: TopicFollower(store, owners, topic, pace), sessions_max, "TOPIC_SESSIONS_MAX"
        )

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return self._shared.sessions

    @property
    def topics(self) -> int:
        """How many topics are followed for them."""
        return len(self._shared)

    def open(self, topic: TopicName, *, seen: int = ABSENT, otherwise: Layout | None = None) -> TopicSession:
        """A session that watches a topic, named in any way that it may be used by; see `TopicSession`."""
        return TopicSession(self._shared, self._shared.take(topic.for_use()), seen, otherwise)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._shared.close()


def _recorded(picture: Picture, record: Record | None) -> Picture:
    """The picture with a topic's record as it was read; LayoutError if that says what no topic's record says."""
    if record is None or not record.value:
        return picture.without_record()
    return picture.with_record(TopicRecord.decode(record.value), record.version)


def _leader(record: Record | None) -> Owner | None:
    if record is None:
        return None
    try:
        return Owner.of_grant(record)
    except (RecordDamaged, ForeignRecord) as error:
        logger.error("%s is left out: %s", record.key, error)
        return None


def _once_true() -> Iterable[bool]:
    """True, and then False for ever."""
    yield True
    while True:
        yield False
