"""A load of writes beside the reads of Spark: how many puts a service does alone, and while it is read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from loadtest.bench.settings import VALUE_BYTES
from metastore.interface import MetadataStore, open_store

WRITERS = 64
VALUE = bytes(VALUE_BYTES)
POLL_S = 0.005
SETTLED_S = 1.0


class WriteLoad:
    """Puts from a thread of its own, while somebody wants them: so many per second, or as many as are done."""

    def __init__(self, url: str, per_second: float | None = None) -> None:
        self._url = url
        self._interval_s = 0.0 if per_second is None else WRITERS / per_second
        self.written = 0
        self._stop = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[WriteLoad]:
        """Writes as long as the block lasts."""
        self._stop.clear()
        thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="writes", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def rate(self, seconds: float) -> float:
        """Puts per second, for a while, from the first one on."""
        first = self.written
        while self.written == first:
            time.sleep(POLL_S)
        first, began_s = self.written, time.perf_counter()
        time.sleep(max(seconds, SETTLED_S))
        return (self.written - first) / (time.perf_counter() - began_s)

    async def _run(self) -> None:
        async with await open_store(self._url) as store:
            await asyncio.gather(*[self._write(store, number) for number in range(WRITERS)])

    async def _write(self, store: MetadataStore, number: int) -> None:
        due_s = time.monotonic()
        while not self._stop.is_set():
            await store.put(f"/load/{number}", VALUE)
            self.written += 1
            due_s = max(due_s, time.monotonic() - self._interval_s) + self._interval_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
