"""What the machine can do at most: LMDB alone, the disk alone, gRPC alone. Others are held against these."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from loadtest.bench.bench import Bench, Group
from loadtest.bench.figures import percentile
from loadtest.bench.model import Better, Line, Metric, Sample, Turn
from loadtest.bench.raw_lmdb import RawLmdb
from loadtest.bench.servers import Server, echo
from loadtest.bench.settings import SCAN_RECORDS, SMALL_RECORDS, Settings
from loadtest.bench.workload import Echo

GROUP = "limits"
SIDE = "limit"
FILE_BYTES = 64 * 1024 * 1024
BATCHES = (10, 100, 1000)
SYNCED_WRITES = {"256 B": 256, "16 KiB": 16 * 1024, "160 KiB": 160 * 1024}

RATE = Metric("rate", "", "puts/s", Better.HIGHER)
P50 = Metric("p50_ms", "p50", "ms", Better.LOWER)
P99 = Metric("p99_ms", "p99", "ms", Better.LOWER)


class SyncedFile:
    """A preallocated, zero-filled file that is written in place and synced: what a log does at the least."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._file.write(bytes(FILE_BYTES))
        os.fsync(self._file.fileno())
        self._offset = 0

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def measure(self, size_bytes: int, turn: Turn) -> Sample:
        """Writes one piece after the other, each followed by fdatasync."""
        piece = os.urandom(size_bytes)
        descriptor = self._file.fileno()
        latencies_s: list[float] = []
        started_s = now_s = time.perf_counter()
        while now_s - started_s < turn.seconds:
            os.pwrite(descriptor, piece, self._offset)
            os.fdatasync(descriptor)
            self._offset = (self._offset + size_bytes) % (FILE_BYTES - size_bytes)
            before_s, now_s = now_s, time.perf_counter()
            latencies_s.append(now_s - before_s)
        latencies_s.sort()
        return {"p50_ms": percentile(latencies_s, 0.5) * 1e3, "p99_ms": percentile(latencies_s, 0.99) * 1e3}


@dataclass
class Limits:
    """The subject: all that is below a server."""

    database: RawLmdb
    file: SyncedFile
    echo: Server
    bench: Bench

    def put_in_order(self, turn: Turn, batch: int) -> Sample:
        return self.database.put_in_order(batch, turn)

    def put_random(self, turn: Turn, batch: int) -> Sample:
        return self.database.put_random(batch, turn)

    def write_synced(self, turn: Turn, size_bytes: int) -> Sample:
        return self.file.measure(size_bytes, turn)

    def call_echo(self, turn: Turn, is_stream: bool) -> Sample:
        with self.echo.awake():
            return self.bench.generator.load(self.echo.address, Echo(is_stream), turn.number, turn.seconds)


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """The one group of this module."""
    return [Group(GROUP, "Limits of this machine, 128-byte values", (SIDE,), list(_lines()), _open)]


def _lines() -> Iterator[Line[Limits]]:
    for records, batches in ((SMALL_RECORDS, BATCHES), (SCAN_RECORDS, (100,))):
        for batch in batches:
            yield Line(
                f"lmdb-random-{records // 1000}k-{batch}",
                f"py-lmdb, a synced commit per {batch}, random over {records:,}",
                (RATE,),
                partial(Limits.put_random, batch=batch),
                prepare=partial(_fill, records=records),
            )
    for batch in BATCHES:
        title = f"py-lmdb, a synced commit per {batch}, new keys in order"
        yield Line(f"lmdb-ordered-{batch}", title, (RATE,), partial(Limits.put_in_order, batch=batch))
    for name, size_bytes in SYNCED_WRITES.items():
        title = f"pwrite and fdatasync of {name}, preallocated"
        yield Line(f"fdatasync-{size_bytes}", title, (P50, P99), partial(Limits.write_synced, size_bytes=size_bytes))
    for name, is_stream in (("unary", False), ("stream", True)):
        title = f"gRPC echo, {name}, grpcio's synchronous server"
        yield Line(f"echo-{name}", title, (P50, P99), partial(Limits.call_echo, is_stream=is_stream))


def _fill(limits: Limits, records: int) -> None:
    limits.database.fill(records)


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, Limits]]:
    with ExitStack() as stack:
        folder = stack.enter_context(bench.fresh_folder(GROUP))
        database = stack.enter_context(RawLmdb(folder / "lmdb"))
        file = SyncedFile(folder / "file")
        stack.callback(file.close)
        server = stack.enter_context(Server(echo(), folder, bench.generator))
        server.pause()
        yield {SIDE: Limits(database, file, server, bench)}
