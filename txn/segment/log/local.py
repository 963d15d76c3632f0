"""Segment logs in files of this machine: the entries in a log of `metastore.log`, one directory for each segment.

Any process of the machine can take a segment over once the owner's process has let go of it or died: the directory is
locked by the kernel for as long as a process has it open. So a deposed owner that lives keeps its successor waiting
until it closes the log; it can never be overtaken while it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from metastore.clock import Clock
from metastore.coordination import Pace
from metastore.faults import NO_FAULTS, Faults
from metastore.log import Log, LogError, LogFull, LogOptions, LogTrimmed
from txn.model.position import Position
from txn.segment.errors import LogStopped, SegmentFull
from txn.segment.log.ahead import AHEAD_BYTES_MAX, ReadAhead
from txn.segment.log.directory import REMOVED, SegmentDirectory, remove_tree, take_over, told
from txn.segment.log.interface import SegmentLogs, Synced, unmeasured
from txn.segment.log.offsets import offset_of, position_of
from txn.segment.log.owned import OwnedLog
from txn.segment.log.recent import RECENT_BYTES_MAX, RecentEntries
from txn.segment.log.state import LogState
from txn.segment.log.threads import WorkInTurn
from txn.segment.log.waiting import Group

THREADS_MAX = 8
"""Of all logs together: so many syncs and reads at the same time."""
WRITE_BYTES_MAX = 4 << 20
"""Groups are written and synced together up to so many bytes. One group is never divided."""
READ_BYTES_MAX = 1 << 20
"""What is read from the disk at once; what was written at once comes as a whole."""

_ANY_AGE_MS = 1 << 64


@dataclass(frozen=True)
class LocalLogOptions:
    """Sizes. Segments are many and mostly small, so files grow in small steps, and nothing is held in reserve."""

    files: LogOptions = field(default_factory=lambda: LogOptions(reserve_bytes=0, step_bytes_min=64 << 10))
    group_bytes_max: int = 32 << 20
    recent_bytes_max: int = RECENT_BYTES_MAX
    ahead_bytes_max: int = AHEAD_BYTES_MAX
    """Of all logs together."""


class LocalSegmentLog(OwnedLog):
    """A segment's log in its directory."""

    def __init__(
        self,
        directory: SegmentDirectory,
        state: LogState,
        log: Log,
        threads: ThreadPoolExecutor,
        pace: Pace,
        options: LocalLogOptions,
        ahead: ReadAhead,
        synced: Synced,
    ) -> None:
        state = replace(state, trimmed=position_of(state, log.first_offset))
        super().__init__(state, RecentEntries(options.recent_bytes_max), ahead)
        self.group_bytes_max = options.group_bytes_max
        self._directory = directory
        self._log = log
        self._threads = threads
        self._changes = WorkInTurn(threads)
        self._clock = pace.clock
        self._synced = synced
        self._writing: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # -- appending

    def _start_writing(self) -> None:
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write_all())

    async def _write_all(self) -> None:
        """Writes what waits, always all there is together, until nothing does."""
        try:
            while self._waiting:
                groups = self._waiting.take(WRITE_BYTES_MAX)
                try:
                    await self._write(groups)
                except BaseException:
                    self._end(LogStopped(f"writing the log of {self.segment!r} was interrupted"), groups)
                    raise
        finally:
            self._writing = None

    async def _write(self, groups: Sequence[Group]) -> None:
        entries = [entry for group in groups for entry in group.entries]
        try:
            took_s = await self._changes.run(partial(_write_durably, self._log, entries, self._clock))
        except LogFull as error:
            full = SegmentFull(f"no space for the log of {self.segment!r}: {error}. Nothing was changed")
            full.__cause__ = error
            self._take_back(groups, full)
        except (LogError, OSError) as error:
            stopped = LogStopped(
                f"the log of {self.segment!r} has stopped, for it is in doubt what the disk holds: {error}"
            )
            stopped.__cause__ = error
            self._end(stopped, groups)
        else:
            self._synced(took_s)
            self._confirm(groups)

    # -- reading

    async def _read_stored(self, at: Position, entries_max: int, bytes_max: int) -> Sequence[bytes]:
        state = self._state
        length = next(length for ledger, length in self.lengths.ledgers if ledger == at.ledger)
        read = partial(self._log.read, offset_of(state, at), min(bytes_max, READ_BYTES_MAX))
        with told(self.segment, "reading"):
            try:
                frames = await asyncio.get_running_loop().run_in_executor(self._threads, read)
            except LogTrimmed as error:  # while it was being read
                raise self._trimmed(at, position_of(state, error.oldest)) from error
        entries = [entry for frame in frames for entry in frame.entries]
        return entries[: length - at.entry]

    # -- what else is durable

    async def _store_seal(self) -> None:
        with told(self.segment, "sealing"):
            await self._changes.run(lambda: self._directory.write_state(replace(self._state, is_sealed=True)))
        self._state = replace(self._state, is_sealed=True)

    async def trim(self, before: Position) -> None:
        self._require_running()
        lengths = self.lengths
        keep_from = offset_of(self._state, min(lengths.ceiling(before), lengths.end))
        with told(self.segment, "trimming"):
            first_offset = await self._changes.run(partial(self._log.trim, keep_from, _ANY_AGE_MS))
        trimmed = position_of(self._state, first_offset)
        self._state = replace(self._state, trimmed=trimmed).without_removed(trimmed)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._end(self._closed())
        if self._writing is not None:
            await asyncio.wait({self._writing})
        try:
            await self._changes.run(self._log.close)
        finally:
            self._directory.release()


def _write_durably(log: Log, entries: Sequence[bytes], clock: Clock) -> float:
    """How long it took. LogFull if nothing was changed; after any other error it is in doubt what is durable."""
    began_s = clock.monotonic_s()
    log.append(entries, clock.wall_ms())
    log.sync()
    return clock.monotonic_s() - began_s


class LocalLogs(SegmentLogs):
    """Segment logs below one directory, which several processes may share."""

    def __init__(
        self,
        root: Path,
        *,
        pace: Pace | None = None,
        options: LocalLogOptions | None = None,
        faults: Faults = NO_FAULTS,
        threads: ThreadPoolExecutor | None = None,
        synced: Synced = unmeasured,
    ) -> None:
        self._root = root
        self._pace = pace or Pace()
        self._options = options or LocalLogOptions()
        self._ahead = ReadAhead(self._options.ahead_bytes_max)
        self._synced = synced
        self._faults = faults
        self._threads = threads or ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="tidemark-segment-log")
        self._is_swept = False

    async def open(self, segment: str, term: int) -> LocalSegmentLog:
        work = partial(self._open, segment, term, self._pace.new_mark())
        opening = asyncio.ensure_future(asyncio.wrap_future(self._threads.submit(work)))
        try:
            with told(segment, "opening"):
                directory, state, log = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_give_back)
            raise
        return LocalSegmentLog(
            directory, state, log, self._threads, self._pace, self._options, self._ahead, self._synced
        )

    def _open(self, segment: str, term: int, mark: str) -> tuple[SegmentDirectory, LogState, Log]:
        self._sweep()
        directory = SegmentDirectory.take(self._root, segment, self._faults)
        try:
            return directory, *take_over(directory, segment, term, mark, self._options.files)
        except BaseException:
            directory.release()
            raise

    def _sweep(self) -> None:
        """Once, removes what removals have left that did not come to their end."""
        if not self._is_swept:
            self._root.mkdir(parents=True, exist_ok=True)
            for path in self._root.glob(f"*{REMOVED}"):
                remove_tree(path)
            self._is_swept = True

    async def delete(self, segment: str, term: int) -> None:
        work = partial(self._delete, segment, term, self._pace.new_mark())
        with told(segment, "removing"):
            await asyncio.shield(asyncio.wrap_future(self._threads.submit(work)))

    def _delete(self, segment: str, term: int, mark: str) -> None:
        directory, _, log = self._open(segment, term, mark)
        try:
            log.close()
            directory.remove()
        finally:
            directory.release()

    async def close(self) -> None:
        self._threads.shutdown(wait=False)


def _give_back(opening: asyncio.Future[tuple[SegmentDirectory, LogState, Log]]) -> None:
    """Closes what was opened for somebody who does not wait for it any more."""
    if not opening.cancelled() and opening.exception() is None:
        directory, _, log = opening.result()
        log.close()
        directory.release()
