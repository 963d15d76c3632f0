"""Brings the log's effects into LMDB, aside from the writers.

A commit to LMDB rewrites every page it touches and syncs twice; at a million records that takes tens of
milliseconds. So no writer waits for one: this thread takes a frozen generation, writes it in sorted portions, each
committed and synced by itself, and tells the store when all of it is there. While nobody is in a hurry it pauses
between small steps, because a Python thread that computes for long would hold up the one that answers clients.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from itertools import islice

import lmdb

from metastore.engine.change import Table
from metastore.engine.overlay import Generation
from metastore.engine.store import Applied, Store
from metastore.faults import Faults

PORTION_ENTRIES = 4096
"""Changed keys per commit."""
STEP_ENTRIES = 128
"""Changed keys between two pauses."""
STEP_PAUSE_S = 0.0004
INTERVAL_S = 1.0
"""A store that was at rest for so long is fed, so that a restart finds little to do."""
BUSY_INTERVALS_MAX = 8
"""A store that is written to is left alone for so many intervals, unless it asks: what is written again and again
is then fed once."""
RETRY_INTERVAL_S = 0.5
"""How long to wait after a full disk."""

Change = tuple[Table, bytes, bytes | None]


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
        changes = _sorted_changes(generation)
        portion = list(islice(changes, PORTION_ENTRIES))
        while not is_cancelled():
            following = list(islice(changes, PORTION_ENTRIES))
            applied = None if following else self._store.frozen_applied
            if not self._commit(portion, applied, is_cancelled):
                return False
            if not following:
                return True
            portion = following
        return False

    def _commit(self, portion: list[Change], applied: Applied | None, is_cancelled: Callable[[], bool]) -> bool:
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
                self.fed_entries += len(portion)
                with self._store.lock:
                    self._store.renew()
                return True
        return False

    def _attempt(self, portion: list[Change], applied: Applied | None) -> None:
        """Writes and commits a portion; `applied` goes with the last one of a generation."""
        with self._store.environment.begin(write=True) as transaction:
            for table in Table:
                tree = self._store.trees[table]
                puts = [(key, value) for place, key, value in portion if place is table and value is not None]
                for start in range(0, len(puts), STEP_ENTRIES):
                    tree.put_all(transaction, puts[start : start + STEP_ENTRIES])
                    self._pause()
                deletes = [key for place, key, value in portion if place is table and value is None]
                for start in range(0, len(deletes), STEP_ENTRIES):
                    tree.delete_all(transaction, deletes[start : start + STEP_ENTRIES])
                    self._pause()
            if applied is not None:
                self._store.write_applied(transaction, applied)
            self._faults.reach("feeder.commit.before")
        self._faults.reach("feeder.commit.after")

    def _pause(self) -> None:
        if self._store.active.size_bytes < self._store.options.generation_bytes:
            self._stop.wait(STEP_PAUSE_S)


def _sorted_changes(generation: Generation) -> Iterator[Change]:
    for table in Table:
        entries = generation.layers[table].entries
        for key in sorted(entries):
            yield table, key, entries[key]


def _is_out_of_space(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "No space left" in str(error) or "quota" in str(error).lower()
