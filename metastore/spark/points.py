"""`pin`: one point for several reads, held until it is let go."""

from __future__ import annotations

import logging
import subprocess
import sys
from types import TracebackType
from typing import Self

from metastore.spark.errors import PointGone, StoreUnreachable
from metastore.spark.options import HOLD_MS_MAX
from metastore.spark.stores.opening import open_source
from metastore.spark.stores.point import Point

HOLD_MS = 600_000
CLOSE_WITHIN_S = 10.0

logger = logging.getLogger("tidemark.spark")


class Pin:
    """A point, and what holds it. `str` of it is the value of option `point`."""

    def __init__(self, store: str, namespace: str | None, hold_ms: int) -> None:
        self.store = store
        self._namespace = namespace
        self._holder: subprocess.Popen[str] | None = None
        with open_source(store, namespace) as source:
            if source.is_held_by_reader:
                self._holder, self.point = _held(store, namespace)
            else:
                self.point = source.pin(hold_ms)

    def __str__(self) -> str:
        return str(self.point)

    def close(self) -> None:
        """Lets the point go. Reads that have not ended may fail then."""
        if self._holder is not None:
            holder, self._holder = self._holder, None
            holder.communicate(timeout=CLOSE_WITHIN_S)
            return
        try:
            with open_source(self.store, self._namespace) as source:
                source.release(self.point)
        except StoreUnreachable as error:
            # The point is gone with the service, or when it has not been read for long enough; what was read is sound.
            logger.warning("the point that was read could not be let go: %s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pin(store: str, *, namespace: str | None = None, hold_ms: int = HOLD_MS) -> Pin:
    """The present state of a store, to be given to any number of reads as option `point`; to be closed.

    A directory's is held by a process of its own, which ends with this one; a service's by the service, for `hold_ms`
    after it was last read.
    """
    assert 0 < hold_ms <= HOLD_MS_MAX
    return Pin(store, namespace, hold_ms)


def _held(store: str, namespace: str | None) -> tuple[subprocess.Popen[str], Point]:
    """A process of its own: LMDB cannot be open twice in one, and this one may serve the store."""
    command = [sys.executable, "-m", "metastore.spark.holder", store, *([namespace] if namespace else [])]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    line = holder.stdout.readline()
    if not line:
        holder.communicate(timeout=CLOSE_WITHIN_S)
        raise PointGone(f"{store}: the point could not be held: see what the holder said above")
    return holder, Point.parse(line)
