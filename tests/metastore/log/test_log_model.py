"""A log beside a plain list: whatever is done to both, they hold the same."""

from __future__ import annotations

import errno
import tempfile
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from log_helpers import SwitchedFault, small_options

from metastore.log import Log, LogFull, LogOptions, LogTrimmed
from metastore.log.format import SECTOR_BYTES, SEGMENT_HEADER_BYTES

FIRST_OFFSET = 1000
ENTRIES = st.lists(st.binary(max_size=80) | st.integers(0, 1500).map(bytes), min_size=1, max_size=6)


class LogMachine(RuleBasedStateMachine):
    """The model: the groups ever appended, and how many entries are durable."""

    def __init__(self) -> None:
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = Path(self.temporary.name) / "log"
        self.faults = SwitchedFault("log.extend")
        self.entries: list[bytes] = []
        self.groups: list[tuple[int, int]] = []  # (first index in entries, time)
        self.durable = 0  # how many can be read
        self.synced = 0  # how many a power cut leaves
        self.synced_file = (self.directory, b"")  # the newest file as it is on the disk for certain
        self.time_ms = 0

    @initialize(
        options=st.builds(
            small_options,
            segment_bytes_max=st.sampled_from([200, 1024, 5000]),
            reserve_bytes=st.sampled_from([0, 300]),
            step_bytes=st.sampled_from([64, 512]),
            sync=st.booleans(),
        )
    )
    def start(self, options: LogOptions) -> None:
        self.options = options
        self.log = Log.open(self.directory, options, self.faults, FIRST_OFFSET)
        self.all_synced()

    @rule(entries=ENTRIES, from_reserve=st.booleans(), later_ms=st.integers(0, 3))
    def append(self, entries: list[bytes], from_reserve: bool, later_ms: int) -> None:
        self.time_ms += later_ms
        before = (self.newest_file(), self.newest_file().read_bytes())
        self.faults.reached.clear()
        try:
            offset = self.log.append(entries, self.time_ms, from_reserve=from_reserve)
        except LogFull:
            assert self.faults.error_number == errno.ENOSPC
            return
        finally:
            if "log.sync.after" in self.faults.reached:  # before a roll, even before one that fails
                self.synced, self.synced_file = len(self.entries), before
        assert offset == FIRST_OFFSET + len(self.entries)
        if self.newest_file() != before[0]:
            self.all_synced()
            path, data = self.synced_file
            self.synced_file = (path, data[:SEGMENT_HEADER_BYTES].ljust(len(data), b"\0"))
        self.groups.append((len(self.entries), self.time_ms))
        self.entries += entries

    @rule()
    def sync(self) -> None:
        self.log.sync()
        if self.options.sync:
            self.all_synced()
        self.durable = len(self.entries)

    @rule(full=st.booleans())
    def fill_disk(self, full: bool) -> None:
        self.faults.error_number = errno.ENOSPC if full else 0

    @rule(place=st.floats(0, 1), bytes_max=st.sampled_from([1, 100, 1 << 20]))
    def read(self, place: float, bytes_max: int) -> None:
        index = int(place * len(self.entries))
        if FIRST_OFFSET + index < self.log.first_offset:
            with pytest.raises(LogTrimmed) as caught:
                self.log.read(FIRST_OFFSET + index, bytes_max)
            assert caught.value.oldest == self.log.first_offset
            return
        frames = self.log.read(FIRST_OFFSET + index, bytes_max)
        assert bool(frames) == (index < self.durable)
        for frame in frames:
            assert frame.first_offset == FIRST_OFFSET + index
            end = index + len(frame.entries)
            assert frame.entries == self.entries[index:end]
            begun = [group for group in self.groups if group[0] <= index]
            assert frame.time_ms == begun[-1][1]
            index = end
            assert index == len(self.entries) or index in dict(self.groups)
        assert index <= self.durable or not frames

    @rule(place=st.floats(0, 1), age_ms=st.integers(0, 10))
    def trim(self, place: float, age_ms: int) -> None:
        keep, older_than_ms = FIRST_OFFSET + int(place * len(self.entries)), self.time_ms - age_ms
        before = self.log.first_offset
        after = self.log.trim(keep, older_than_ms)
        assert before <= after <= max(before, keep)
        times = [time for first, time in self.groups if before <= FIRST_OFFSET + first < after]
        assert all(time < older_than_ms for time in times)

    @rule(full=st.booleans())
    def reopen(self, full: bool) -> None:
        first_offset = self.log.first_offset
        self.log.close()
        self.faults.error_number = errno.ENOSPC if full else 0
        self.log = self.open_again(durable_floor=len(self.entries))
        assert self.log.first_offset == first_offset
        self.all_synced()

    @rule(choices=st.lists(st.booleans(), min_size=1, max_size=40), cut_short=st.booleans())
    def cut_the_power(self, choices: list[bool], cut_short: bool) -> None:
        """Of what was written since the last sync, any sectors have reached the disk, and any have not."""
        path, synced_bytes = self.synced_file
        self.log.close()
        written = path.read_bytes()
        old = synced_bytes.ljust(len(written), b"\0")
        sectors = range(0, len(written), SECTOR_BYTES)
        chosen = [
            (written if arrived else old)[start : start + SECTOR_BYTES]
            for start, arrived in zip(sectors, cycle(choices), strict=False)
        ]
        mixed = b"".join(chosen)
        path.write_bytes(mixed.rstrip(b"\0").ljust(len(synced_bytes), b"\0") if cut_short else mixed)
        self.log = self.open_again(durable_floor=self.synced)
        index = self.log.next_offset - FIRST_OFFSET
        assert index == len(self.entries) or index in dict(self.groups)
        del self.entries[index:]
        self.groups = [group for group in self.groups if group[0] < index]
        self.all_synced()

    def open_again(self, durable_floor: int) -> Log:
        floor = FIRST_OFFSET + durable_floor
        return Log.open(self.directory, self.options, self.faults, durable_floor=floor)

    def all_synced(self) -> None:
        """Everything that is there is on the disk."""
        self.durable = self.synced = len(self.entries)
        path = self.newest_file()
        self.synced_file = (path, path.read_bytes())

    def newest_file(self) -> Path:
        return max(self.directory.iterdir())

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.log.next_offset == FIRST_OFFSET + len(self.entries)
            assert self.log.durable_end == FIRST_OFFSET + self.durable
            assert self.log.first_offset <= self.log.durable_end
            paths = list(self.directory.iterdir())
            assert self.log.segment_count == len(paths)
            assert self.log.size_bytes == sum(path.stat().st_size for path in paths)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
        self.temporary.cleanup()


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
