"""Previous records: whether the log tells what a record was before it changed, and since when; durable.

Nobody needs it but watches that ask for previous values, and it makes the log larger. So it is off until the first
of them, which switches it on, and goes off again some time after the last. A small file beside the log says since
which offset it holds. It is written before the first such entry and removed before the first entry without, so what
it claims is true at every instant; a watch that resumes after a restart can rely on it.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from metastore.engine.errors import EngineError, StoreDamaged, StoreFull
from metastore.faults import Faults
from metastore.files import sync_path, unfinished_path
from metastore.log.errors import is_no_space

FILE_NAME = "previous"
FORMAT = 1
_FIELDS = struct.Struct("<Bqq")
_CHECKSUM = struct.Struct("<I")

REFRESHES_PER_RETENTION = 8
"""So often within one retention time the file notes that it is still wanted: it must be decidable after a restart."""


class PreviousRecords:
    """The switch. Changed between rounds only."""

    def __init__(self, directory: Path, faults: Faults) -> None:
        self._directory = directory
        self._path = directory / FILE_NAME
        self._faults = faults
        self.since_offset: int | None = None
        """From here on every entry tells what records were; None: off."""
        self.wanted_ms = 0
        """When somebody wanted it for the last time, as far as the file says."""
        if self._path.exists():
            self._load(self._path.read_bytes())

    def _load(self, data: bytes) -> None:
        if len(data) != _FIELDS.size + _CHECKSUM.size:
            raise StoreDamaged(f"{self._path} has {len(data)} bytes instead of {_FIELDS.size + _CHECKSUM.size}")
        if _CHECKSUM.unpack_from(data, _FIELDS.size)[0] != zlib.crc32(data[: _FIELDS.size]):
            raise StoreDamaged(f"{self._path} fails its checksum")
        form, since_offset, wanted_ms = _FIELDS.unpack_from(data)
        if form != FORMAT:
            raise StoreDamaged(f"{self._path} has format {form}; this version reads format {FORMAT}")
        self.since_offset, self.wanted_ms = since_offset, wanted_ms

    def begin(self, next_offset: int, now_ms: int) -> int:
        """Switches on, if it is off; returns the offset since which it is on."""
        if self.since_offset is None:
            # First in memory: should only the directory's sync fail, the file may be there, and must not lie.
            self.since_offset = next_offset
            try:
                self._write(now_ms)
            except OSError as error:
                if not self._path.exists():
                    self.since_offset = None
                kind = StoreFull if is_no_space(error) else EngineError
                raise kind(f"previous records cannot be kept: {error}") from error
        return self.since_offset

    def tend(self, is_wanted: bool, now_ms: int, retention_ms: int) -> bool:
        """Notes that it is wanted, now and then; True if it has not been for long enough to `end` it."""
        interval_ms = max(1, retention_ms // REFRESHES_PER_RETENTION)
        unwanted_ms = now_ms - self.wanted_ms
        if (is_wanted and unwanted_ms >= interval_ms) or unwanted_ms < 0:
            self._write(now_ms)
        return not is_wanted and unwanted_ms > retention_ms + interval_ms

    def end(self) -> None:
        """Switches off, the file first."""
        self._path.unlink(missing_ok=True)
        self._faults.reach("previous.unlink.after")
        sync_path(self._directory)
        self.since_offset = None

    def _write(self, now_ms: int) -> None:
        """Replaces the file, whole and durable."""
        assert self.since_offset is not None
        fields = _FIELDS.pack(FORMAT, self.since_offset, now_ms)
        unfinished = unfinished_path(self._path)
        with unfinished.open("wb") as file:
            file.write(fields + _CHECKSUM.pack(zlib.crc32(fields)))
            file.flush()
            self._faults.reach("previous.sync.before")
            os.fsync(file.fileno())
        self._faults.reach("previous.rename.before")
        unfinished.rename(self._path)
        self._faults.reach("previous.rename.after")
        sync_path(self._directory)
        self.wanted_ms = now_ms
