"""Brings the log's effects into LMDB, aside from the writers.

A commit to LMDB rewrites every page it touches and syncs twice; at a million records that takes tens of
milliseconds. So no writer waits for one: this thread takes a frozen generation, writes it in sorted portions, each
committed and synced by itself, and tells the store when all of it is there.

A Python thread that computes for long would hold up the one that answers clients. So this one goes by small steps,
each begun when nobody is using the store, and never does much in a single call: not even sorting. LMDB gives the
interpreter up at every record, and two threads that pass it to and fro at that pace do half as much as one.
"""

from __future__ import annotations

import errno
import threading
from bisect import bisect
from collections.abc import Callable, Collection, Iterator
from itertools import islice

import lmdb

from metastore.engine.change import Table
from metastore.engine.overlay import Generation
from metastore.engine.store import Applied, Store
from metastore.engine.tree import Item
from metastore.faults import Faults

STEP_ENTRIES = 128
"""Changed keys between two pauses."""
PORTION_STEPS = 32
"""Steps per commit."""
SORTED_ENTRIES = 4096
"""About so many keys are sorted at a time."""
SAMPLES = 16
"""Keys that are looked at for each bound between what is sorted at a time."""
STEP_PAUSE_S = 0.0004
INTERVAL_S = 1.0
"""A store that was at rest for so long is fed, so that a restart finds little to do."""
BUSY_INTERVALS_MAX = 8
"""A store that is written to is left alone for so many intervals, unless it asks: what is written again and again
is then fed once."""
RETRY_INTERVAL_S = 0.5
"""How long to wait after a full disk."""

Step = tuple[Table, list[Item], list[bytes]]
"""A table, the keys that it is to have, with their values, and those that it is to lose; each sorted."""


class Feeder:
    """The thread that feeds one store."""

    def __init__(self, store: Store, faults: Faults, on_failure: Callable[[BaseException], None]) -> None:
        self._store = store
        self._faults = faults
        self._on_failure = on_failure
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._feeding = threading.Lock()
        self.progress = threading.Condition()
        """Notified after each generation, and when the feeder ends."""
        self.is_blocked = False
        """The disk is full: nothing gets in at present."""
        self.commits = 0
        self.fed_entries = 0
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        """Begins to feed."""
        self._thread.start()

    def wake(self) -> None:
        """Says that the active generation has grown enough."""
        self._wake.set()

    def stop(self) -> None:
        """Ends the thread, in the middle of a generation if need be (the log has it all)."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            seen, intervals = -1, 0
            while not self._stop.is_set():
                is_asked = self._wake.wait(INTERVAL_S)
                self._wake.clear()
                before, seen, intervals = seen, self._store.durable.next_offset, intervals + 1
                if is_asked or seen == before or intervals >= BUSY_INTERVALS_MAX:
                    self.feed_all(self._stop.is_set)
                    intervals = 0
        except BaseException as error:
            self._on_failure(error)
        finally:
            with self.progress:
                self.progress.notify_all()

    def feed_all(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Feeds until LMDB has everything that was durable at the start, or a bit more."""
        with self._feeding:
            self._feed_up_to_now(is_cancelled)

    def _feed_up_to_now(self, is_cancelled: Callable[[], bool]) -> None:
        with self._store.lock:
            target = self._store.durable.next_offset
        while not is_cancelled():
            with self._store.lock:
                if self._store.applied.next_offset >= target:
                    return
                generation = self._store.freeze()
            if generation is None or not self._feed(generation, is_cancelled):
                return
            with self._store.lock:
                self._store.drop_frozen()
            with self.progress:
                self.progress.notify_all()

    def _feed(self, generation: Generation, is_cancelled: Callable[[], bool]) -> bool:
        """Writes a generation; False if cancelled before its end."""
        steps = _steps(generation)
        portion = list(islice(steps, PORTION_STEPS))
        while not is_cancelled():
            following = list(islice(steps, PORTION_STEPS))
            applied = None if following else self._store.frozen_applied
            if not self._commit(portion, applied, is_cancelled):
                return False
            if not following:
                return True
            portion = following
        return False

    def _commit(self, portion: list[Step], applied: Applied | None, is_cancelled: Callable[[], bool]) -> bool:
        """One portion, in as many attempts as a growing map or a full disk ask for; False if cancelled."""
        while not is_cancelled():
            try:
                self._attempt(portion, applied)
            except lmdb.MapFullError:
                self._faults.reach("feeder.grow.before")
                with self._store.lock:
                    self._store.grow_map()
                self._faults.reach("feeder.grow.after")
            except (lmdb.DiskError, OSError) as error:
                if not _is_out_of_space(error):
                    raise
                self.is_blocked = True
                self._stop.wait(RETRY_INTERVAL_S)
            else:
                self.is_blocked = False
                self.commits += 1
                self.fed_entries += sum(len(puts) + len(deletes) for _, puts, deletes in portion)
                with self._store.lock:
                    self._store.renew()
                return True
        return False

    def _attempt(self, portion: list[Step], applied: Applied | None) -> None:
        """Writes and commits a portion; `applied` goes with the last one of a generation."""
        with self._store.environment.begin(write=True) as transaction:
            for table, puts, deletes in portion:
                tree = self._store.trees[table]
                tree.put_all(transaction, puts)
                tree.delete_all(transaction, deletes)
                self._pause()
            if applied is not None:
                self._store.write_applied(transaction, applied)
            self._faults.reach("feeder.commit.before")
        self._faults.reach("feeder.commit.after")

    def _pause(self) -> None:
        """Waits a little unless the writers are far ahead, and then until nobody is in the middle of something."""
        if self._store.active.size_bytes < self._store.options.generation_bytes:
            self._stop.wait(STEP_PAUSE_S)
        with self._store.lock:
            pass


def _steps(generation: Generation) -> Iterator[Step]:
    """A generation's changes, sorted by table and key."""
    for table in Table:
        entries = generation.layers[table].entries
        for keys in sorted_parts(entries):
            for start in range(0, len(keys), STEP_ENTRIES):
                changes = [(key, entries[key]) for key in keys[start : start + STEP_ENTRIES]]
                puts = [(key, value) for key, value in changes if value is not None]
                deletes = [key for key, value in changes if value is None]
                yield table, puts, deletes


def sorted_parts(keys: Collection[bytes]) -> Iterator[list[bytes]]:
    """All keys in order, in parts: sorting a hundred thousand at once would hold up everybody for 50 ms."""
    count = len(keys) // SORTED_ENTRIES + 1
    samples = sorted(islice(keys, 0, None, max(1, len(keys) // (count * SAMPLES))))
    bounds = samples[SAMPLES::SAMPLES]
    parts: list[list[bytes]] = [[] for _ in range(len(bounds) + 1)]
    for key in keys:
        parts[bisect(bounds, key)].append(key)
    for part in parts:
        part.sort()
        yield part


def _is_out_of_space(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "No space left" in str(error) or "quota" in str(error).lower()
