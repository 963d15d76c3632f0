"""Points: states of a shard that are kept for a while, so that many reads, and readers, see the same one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from metastore.clock import Clock
from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.errors import InvalidRequest, Overloaded, PointReleased
from metastore.engine.keys import KeyOrder
from metastore.engine.leaves import Leaves
from metastore.engine.overlay import View
from metastore.engine.scan import indexed
from metastore.engine.store import Snapshot, Store

PAGE_ITEMS = 512
"""What is read in one go, while the point cannot be let go."""


class Page(NamedTuple):
    """Some records, as they are stored."""

    entries: list[bytes]
    """Of an index: the encoded key by which each was found."""
    records: list[bytes]
    lengths: list[int]
    """Of the records: counted once for all who ask."""


class _Point:
    """One of them. Its lock is held while it is read or let go: LMDB's transactions are not for two threads at once."""

    def __init__(self, snapshot: Snapshot, hold_s: float, now_s: float, is_passing: bool) -> None:
        self.lock = threading.Lock()
        self.snapshot: Snapshot | None = snapshot
        self.hold_s = hold_s
        self.used_s = now_s
        self.is_passing = is_passing


class Points:
    """The points of one shard. LMDB cannot reuse what they hold, so each lasts a bounded time after its last use."""

    def __init__(self, store: Store, order: KeyOrder, clock: Clock) -> None:
        self._store = store
        self._order = order
        self._clock = clock
        self._lock = threading.Lock()
        self._points: dict[int, _Point] = {}
        self._ids = count(clock.wall_ms() << 16)
        """Not those of the process before, whose points are gone."""

    def __len__(self) -> int:
        return len(self._points)

    def hold(self, hold_ms: int, *, is_passing: bool = False) -> tuple[int, int]:
        """Keeps the present state; returns the point's id and the first offset that it does not hold.

        A passing point makes room for others when it has not been used for a while.
        """
        if not limits.POINT_HOLD_MS_MIN <= hold_ms <= limits.POINT_HOLD_MS_MAX:
            raise InvalidRequest(
                f"a point cannot be held for {hold_ms} ms: {limits.POINT_HOLD_MS_MIN} to {limits.POINT_HOLD_MS_MAX}"
            )
        now_s = self._clock.monotonic_s()
        with self._lock:
            past = self._last_used_before(now_s) if len(self._points) >= limits.POINTS_MAX else None
            with self._store.lock:
                snapshot = self._store.snapshot()
            point_id = next(self._ids)
            self._points[point_id] = _Point(snapshot, hold_ms / 1000, now_s, is_passing)
        if past is not None:
            self.release(past)
        return point_id, snapshot.durable.next_offset

    def _last_used_before(self, now_s: float) -> int:
        """The point that can make room, of several the one that was not used for longest."""
        unused_s = now_s - limits.PASSING_POINT_HOLD_MS / 1000
        passing = {key: point.used_s for key, point in self._points.items() if point.is_passing}
        first = min(passing, key=passing.__getitem__, default=None)
        if first is None or passing[first] > unused_s:
            raise Overloaded(f"{limits.POINTS_MAX} points are held (POINTS_MAX); try again later")
        return first

    def pages(self, point_id: int, table: Table, low: bytes, high: bytes) -> Iterator[Page]:
        """A range of a table, in order, some records at a time; PointReleased if the point is gone, also meanwhile."""
        following: bytes | None = low
        while following is not None and following < high:
            with self._used(point_id) as snapshot:
                page, following = self._page(snapshot.view, table, following, high)
            if page.records:
                yield page

    def leaves(self, point_id: int, low: bytes, high: bytes) -> Iterator[Leaves | Page]:
        """The same of records, as LMDB's leaves hold them wherever they do."""
        following: bytes | None = low
        while following is not None and following < high:
            with self._used(point_id) as snapshot:
                end = snapshot.stored_until(following, high)
                stored = snapshot.leaves(following, end)
            while (leaves := self._next(point_id, stored)) is not None:
                yield leaves
            following = end
            if end < high:
                with self._used(point_id) as snapshot:
                    page, following = self._page(snapshot.view, Table.RECORDS, end, high)
                if page.records:
                    yield page

    def _next(self, point_id: int, stored: Iterator[Leaves]) -> Leaves | None:
        with self._used(point_id):
            return next(stored, None)

    @contextmanager
    def _used(self, point_id: int) -> Iterator[Snapshot]:
        point = self._points.get(point_id)
        if point is None:
            raise PointReleased(point_id)
        with point.lock:
            if point.snapshot is None:
                raise PointReleased(point_id)
            point.used_s = self._clock.monotonic_s()
            yield point.snapshot

    def _page(self, view: View, table: Table, low: bytes, high: bytes) -> tuple[Page, bytes | None]:
        """A page, and where the next one begins."""
        if table is Table.RECORDS:
            records, following = view.values(table, low, high, PAGE_ITEMS)
            return Page([], records, list(map(len, records))), following
        items, records, following = indexed(view, self._order, low, high, PAGE_ITEMS)
        return Page([key for key, _ in items], records, list(map(len, records))), following

    def release(self, point_id: int) -> None:
        """Lets a point go; one that is gone is no matter."""
        with self._lock:
            point = self._points.pop(point_id, None)
        if point is not None:
            _let_go(point)

    def tend(self) -> None:
        """To be called now and then: lets go what was not used for long enough, and everything if LMDB must grow."""
        now_s = self._clock.monotonic_s()
        must_grow = self._store.is_waiting_to_grow
        with self._lock:
            points = list(self._points.items())
        for point_id, point in points:
            if must_grow or now_s - point.used_s > point.hold_s:
                self.release(point_id)

    def close(self) -> None:
        """Lets all go."""
        for point_id in list(self._points):
            self.release(point_id)


def _let_go(point: _Point) -> None:
    with point.lock:
        assert point.snapshot is not None
        snapshot, point.snapshot = point.snapshot, None
        snapshot.close()
