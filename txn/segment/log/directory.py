"""The directory of a segment's local log: who has it, and what the log says of itself beside its entries.

LOCK           held, by the kernel, for as long as a process has the log open; it goes when the process dies
segment.json   the `LogState`: replaced as a whole, durably
log/           the entries of all ledgers, one behind the other, in a log of `metastore.log`
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from metastore.faults import Faults
from metastore.files import lock_file, replace_file, sync_path
from metastore.log import Log, LogDamaged, LogError, LogFull, LogOptions
from metastore.log.errors import is_no_space
from txn.model import paths
from txn.model.errors import RecordDamaged, SegmentUnavailable
from txn.segment.errors import LogInUse, SegmentFull
from txn.segment.log.offsets import position_of
from txn.segment.log.state import LogState

LOCK = "LOCK"
STATE = "segment.json"
ENTRIES = "log"
REMOVED = ".removed"

_PLAIN_NAME_MAX = 200
_SHORT_NAME = 150


def directory_name(segment: str) -> str:
    """A segment's name as that of a directory: never with a dot, and never longer than file systems take."""
    name = paths.escaped(segment).replace(".", "%2E")
    if len(name) <= _PLAIN_NAME_MAX:
        return name
    return f"{name[:_SHORT_NAME]}~{hashlib.sha256(segment.encode()).hexdigest()}"


@dataclass(slots=True)
class SegmentDirectory:
    """The directory, held by this process."""

    path: Path
    lock: int
    faults: Faults

    @classmethod
    def take(cls, root: Path, segment: str, faults: Faults) -> SegmentDirectory:
        """Takes the directory of a segment, making it if needed; LogInUse if another process has it."""
        path = root / directory_name(segment)
        if not path.is_dir():
            path.mkdir(exist_ok=True)
            sync_path(root)
        try:
            lock = lock_file(path / LOCK)
        except BlockingIOError as error:
            raise LogInUse(f"the log of {segment!r} in {path} is open elsewhere: {error.strerror}") from error
        try:
            is_there = os.path.samestat(os.fstat(lock), os.stat(path / LOCK))
        except OSError as error:  # removed meanwhile
            os.close(lock)
            raise LogInUse(f"the log of {segment!r} in {path} is open elsewhere: {error.strerror}") from error
        if not is_there:
            os.close(lock)
            raise LogInUse(f"the log of {segment!r} in {path} was removed at this moment, and begun anew")
        return cls(path, lock, faults)

    def read_state(self, segment: str) -> LogState | None:
        """The state as it was written last; None of a log that is new."""
        try:
            state = LogState.decode((self.path / STATE).read_bytes())
        except FileNotFoundError:
            return None
        if state.segment != segment:
            raise RecordDamaged(f"{self.path} holds the log of {state.segment!r}, not of {segment!r}")
        return state

    def write_state(self, state: LogState) -> None:
        """Replaces the state, durably."""
        self.faults.reach("segment.state.before")
        replace_file(self.path / STATE, state.encode())
        self.faults.reach("segment.state.after")

    def open_entries(self, state: LogState | None, options: LogOptions) -> Log:
        """The entries; all that were there when the owner before came are known to be durable."""
        floor = 0 if state is None else state.origin
        return Log.open(self.path / ENTRIES, options, self.faults, durable_floor=floor)

    def remove(self) -> None:
        """Removes the directory: at once under its name, then all of it."""
        removed = self.path.with_name(self.path.name + REMOVED)
        remove_tree(removed)  # what a removal left that did not come to its end
        self.path.rename(removed)
        sync_path(self.path.parent)
        remove_tree(removed)

    def release(self) -> None:
        """Lets another process have it."""
        os.close(self.lock)


def take_over(
    directory: SegmentDirectory, segment: str, term: int, mark: str, options: LogOptions
) -> tuple[LogState, Log]:
    """Makes the log this owner's: decides what an earlier one had under way, and writes down the new term."""
    before = directory.read_state(segment)
    log = directory.open_entries(before, options)
    try:
        end = log.next_offset
        if before is None:
            if end:
                raise RecordDamaged(f"{directory.path} has entries, but no {STATE}")
            state = LogState(segment, term, mark)
        else:
            # What is in no file any more need not be named any more.
            kept = before.without_removed(position_of(before, log.first_offset))
            state = kept.successor(term, mark, end - before.origin, end)
        directory.write_state(state)
    except BaseException:
        log.close()
        raise
    return state, log


def remove_tree(path: Path) -> None:
    """Removes a directory with all that is in it; it is no matter if another process does the same."""
    while True:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if not path.exists():
                return


@contextmanager
def told(segment: str, doing: str) -> Iterator[None]:
    """Tells what went wrong with files in the words of segments."""
    try:
        yield
    except (LogError, OSError) as error:
        what = f"{doing} the log of {segment!r}: {error}"
        if isinstance(error, LogFull) or (isinstance(error, OSError) and is_no_space(error)):
            raise SegmentFull(f"no space while {what}") from error
        raise (RecordDamaged if isinstance(error, LogDamaged) else SegmentUnavailable)(f"while {what}") from error
