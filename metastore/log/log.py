"""The log: append, sync, read, trim."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from metastore.faults import NO_FAULTS, Faults
from metastore.files import sync_path
from metastore.log import directory as files
from metastore.log.errors import LogDamaged, LogError, LogFailed, LogFull, LogTrimmed, is_no_space
from metastore.log.format import (
    FRAME_OVERHEAD_BYTES,
    SALT_BYTES,
    TIME_MS_MAX,
    Frame,
    SegmentHeader,
    encode_frame_ends,
    encode_payload,
)
from metastore.log.options import DEFAULT_OPTIONS, LogOptions
from metastore.log.recovery import recover_end
from metastore.log.segment import Place, Segment
from metastore.log.tail import Tail

READ_BYTES = 1024 * 1024


class View(NamedTuple):
    """What readers may see, published as one value so that they need no lock."""

    segments: tuple[Segment, ...]
    durable: Place  # in the last segment

    def end_of(self, number: int) -> Place:
        """Where the readable part of a segment ends; of an older one, its successor's header knows."""
        if number == len(self.segments) - 1:
            return self.durable
        header = self.segments[number + 1].header
        return Place(header.first_offset, header.previous_end_position)


class Log:
    """A log in a directory of its own. One thread at a time may change it; any number may read meanwhile."""

    def __init__(
        self,
        directory: Path,
        segments: Sequence[Segment],
        tail: Tail,
        next_offset: int,
        last_time_ms: int,
        options: LogOptions,
        faults: Faults,
    ) -> None:
        self.directory = directory
        self.next_offset = next_offset
        self._tail = tail
        self._last_time_ms = last_time_ms
        self._synced_end = next_offset
        self._view = View(tuple(segments), Place(next_offset, tail.position))
        self._options = options
        self._faults = faults
        self._stopped: str | None = None

    @classmethod
    def open(
        cls,
        directory: Path,
        options: LogOptions = DEFAULT_OPTIONS,
        faults: Faults = NO_FAULTS,
        first_offset: int = 0,
        *,
        durable_floor: int = 0,
    ) -> Log:
        """Opens the log in `directory`, or creates one there that counts from `first_offset`.

        A caller who knows that all entries below `durable_floor` were durable gets LogDamaged if they are not
        there: without that, nobody can tell a log that lost its newest file from a shorter one.
        """
        try:
            files.make_directory(directory)
            paths, unfinished, foreign = files.list_directory(directory)
            if foreign:
                raise LogDamaged(foreign[0], 0, "a foreign file in the directory of a log")
            if not paths and first_offset < durable_floor:
                raise LogDamaged(directory, 0, f"it is empty, but entries below {durable_floor} were durable")
            segments = files.load_chain(paths)
            for path in unfinished:
                path.unlink()
            if not segments:
                return cls._create(directory, first_offset, options, faults)
            return cls._recover(directory, segments, durable_floor, options, faults)
        except OSError as error:
            kind = LogFull if is_no_space(error) else LogFailed
            raise kind(f"{directory}: the log cannot be opened: {error}") from error

    @classmethod
    def _create(cls, directory: Path, first_offset: int, options: LogOptions, faults: Faults) -> Log:
        header = SegmentHeader(_new_salt(options), first_offset)
        path = files.segment_path(directory, first_offset)
        tail = Tail.create(path, header, 0, options, faults, options.step_bytes_min)
        try:
            sync_path(directory)
        except BaseException:
            tail.close()
            raise
        return cls(directory, [tail.segment], tail, first_offset, 0, options, faults)

    @classmethod
    def _recover(
        cls,
        directory: Path,
        segments: Sequence[Segment],
        durable_floor: int,
        options: LogOptions,
        faults: Faults,
    ) -> Log:
        files.cut_spare_space(segments)
        newest = segments[-1]
        fd = os.open(newest.path, os.O_RDWR)
        try:
            end = recover_end(newest, fd, durable_floor)
            tail = Tail(newest, fd, end.place.position, options, faults, options.step_bytes_min)
            tail.prepare_if_possible()
        except BaseException:
            os.close(fd)
            raise
        return cls(directory, segments, tail, end.place.offset, end.last_time_ms, options, faults)

    @property
    def first_offset(self) -> int:
        """The oldest entry retained; equal to `next_offset` if there is none."""
        return self._view.segments[0].first_offset

    @property
    def durable_end(self) -> int:
        """Entries below this offset are durable, and readable."""
        return self._view.durable.offset

    @property
    def segment_count(self) -> int:
        return len(self._view.segments)

    @property
    def size_bytes(self) -> int:
        """What the files take on the disk, prepared space included."""
        view = self._view
        older = sum(view.end_of(number).position for number in range(len(view.segments) - 1))
        return older + self._tail.prepared_end

    def append(self, entries: Sequence[bytes], time_ms: int, *, from_reserve: bool = False) -> int:
        """Writes a group of entries as one frame, durable after `sync`; returns the offset of the first.

        LogFull: nothing was changed. Only an append `from_reserve` may use the last prepared bytes.
        """
        self._require_running()
        if not 0 <= time_ms <= TIME_MS_MAX:
            raise ValueError(f"not a time in milliseconds: {time_ms}")
        payload = encode_payload(entries)
        try:
            self._faults.reach("log.append.before")
            self._make_room(FRAME_OVERHEAD_BYTES + len(payload), from_reserve)
        except OSError as error:
            raise self._full_or_failed("making room", error) from error
        tail, first_offset, position = self._tail, self.next_offset, self._tail.position
        header, trailer = encode_frame_ends(
            payload, position, first_offset, len(entries), time_ms, self._synced_end, tail.segment.header.salt
        )
        try:
            tail.write(header, payload, trailer)
            self._faults.reach("log.append.after")
        except OSError as error:
            raise self._failed("writing a frame", error) from error
        tail.segment.index.learn(first_offset, position)
        self.next_offset = first_offset + len(entries)
        self._last_time_ms = time_ms
        return first_offset

    def sync(self) -> None:
        """Makes all that was appended durable, and readable. If it fails, the log takes no more writes."""
        self._require_running()
        if self.next_offset == self.durable_end:
            return
        if self._options.sync:
            self._sync_tail()
        self._view = View(self._view.segments, Place(self.next_offset, self._tail.position))

    def read(self, offset: int, bytes_max: int = READ_BYTES) -> list[Frame]:
        """The durable frames from the one that holds `offset` on, without the entries before it.

        About `bytes_max` at most, but at least one frame if there is any; what follows may need another call.
        """
        view = self._view
        oldest = view.segments[0].first_offset
        if offset < oldest:
            raise LogTrimmed(offset, oldest)
        if offset >= view.durable.offset:
            return []
        number = bisect_right(view.segments, offset, key=_first_offset) - 1
        segment = view.segments[number]
        try:
            return segment.read(offset, view.end_of(number), bytes_max)
        except FileNotFoundError as error:
            if segment in self._view.segments:
                raise segment.damaged(0, "the file is missing") from error
            raise LogTrimmed(offset, self.first_offset) from error
        except OSError as error:
            raise LogError(f"{segment.path} cannot be read: {error}") from error

    def trim(self, keep_from_offset: int, older_than_ms: int) -> int:
        """Deletes the oldest segments whose entries all lie below the offset and whose last time is older.

        The newest segment stays. Returns the oldest offset that is retained.
        """
        self._require_running()
        try:
            for segment, successor in pairwise(self._view.segments):
                last_time_ms = successor.header.previous_last_time_ms
                if successor.first_offset > keep_from_offset or last_time_ms >= older_than_ms:
                    break
                self._drop_oldest(segment)
        except OSError as error:
            raise self._full_or_failed("trimming", error) from error
        return self.first_offset

    def close(self) -> None:
        """Gives the file back; what was not synced stays undecided. Nothing can be appended any more."""
        if self._tail.is_open:
            self._tail.close()
            self._stopped = self._stopped or f"{self.directory}: the log is closed"

    def _make_room(self, size: int, from_reserve: bool) -> None:
        """Prepares space for a frame, in this segment or in a new one."""
        tail = self._tail
        try:
            if tail.holds_frames and tail.position + size > self._options.segment_bytes_max:
                self._roll(size)
            else:
                tail.prepare(size)
        except OSError as error:
            if not (from_reserve and is_no_space(error) and size <= tail.free_bytes):
                raise

    def _roll(self, size: int) -> None:
        """Goes on in a new segment, once all of the old one is durable."""
        self._faults.reach("log.roll.before")
        if self._synced_end < self.next_offset:
            self._sync_tail()
        old = self._tail
        header = SegmentHeader(
            _new_salt(self._options),
            self.next_offset,
            previous_first_offset=old.segment.first_offset,
            previous_end_position=old.position,
            previous_last_time_ms=self._last_time_ms,
        )
        path = files.segment_path(self.directory, self.next_offset)
        self._tail = Tail.create(path, header, size, self._options, self._faults, old.step_bytes)
        self._view = View((*self._view.segments, self._tail.segment), Place(self.next_offset, self._tail.position))
        try:
            self._sync_directory()
            old.give_back()
        finally:
            old.close()
        self._faults.reach("log.roll.after")

    def _drop_oldest(self, segment: Segment) -> None:
        """Deletes one file, durably before the next: were the order lost, a gap would be left."""
        self._faults.reach("log.trim.before")
        view = self._view
        self._view = View(view.segments[1:], view.durable)
        try:
            segment.path.unlink()
        except OSError:
            self._view = view
            raise
        self._sync_directory()
        self._faults.reach("log.trim.after")

    def _sync_tail(self) -> None:
        try:
            self._tail.sync()
            self._faults.reach("log.sync.after")
        except OSError as error:
            raise self._failed("syncing", error) from error
        self._synced_end = self.next_offset

    def _sync_directory(self) -> None:
        try:
            sync_path(self.directory)
        except OSError as error:
            raise self._failed("syncing the directory", error) from error

    def _require_running(self) -> None:
        if self._stopped is not None:
            raise LogFailed(self._stopped)

    def _full_or_failed(self, doing: str, error: OSError) -> LogError:
        """The error to raise when nothing was changed, if it was for want of space only."""
        if is_no_space(error):
            return LogFull(f"{self.directory}: no space while {doing}: {error}")
        return self._failed(doing, error)

    def _failed(self, doing: str, error: OSError) -> LogFailed:
        """The error to raise when it is in doubt what the disk holds; all later writes raise it too."""
        self._stopped = f"{self.directory}: {doing} failed: {error}; only opening it again shows what is there"
        return LogFailed(self._stopped)


_first_offset = attrgetter("first_offset")


def _new_salt(options: LogOptions) -> int:
    return int.from_bytes(options.random_bytes(SALT_BYTES), "little")
