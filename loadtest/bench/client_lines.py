"""Puts as a program makes them: through `oxia://`, through the stock client on the same server, and embedded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from loadtest.bench.bench import Bench, Group
from loadtest.bench.clients import ContractPutter, Putter, StockPutter
from loadtest.bench.model import AtLeast, Better, Line, Metric, Sample, Turn
from loadtest.bench.servers import Server, tidemark
from loadtest.bench.settings import Settings

GROUP = "client"
OURS, STOCK, EMBEDDED = "oxia://", "stock oxia", "lmdb://"
CALLERS = (1, 64, 1024)
FLOORS = {1: 1.0, 64: 1.0, 1024: 10.0}
"""Of the stock client's puts per second."""


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """The one group of this module."""
    title = "Puts by callers at once, from Python, each waiting for its answer; lmdb:// is in process"
    return [Group(GROUP, title, (OURS, STOCK, EMBEDDED), [_line(callers) for callers in CALLERS], _open)]


def _line(callers: int) -> Line[Putter]:
    floor = FLOORS[callers]
    metrics = (
        Metric("rate", "", "puts/s", Better.HIGHER, (AtLeast(STOCK, floor, goal=floor),)),
        Metric("p50_ms", "p50", "ms", Better.LOWER),
        Metric("p99_ms", "p99", "ms", Better.LOWER),
    )
    title = f"put, {callers:,} caller{'s' if callers > 1 else ''}"
    return Line(f"put-{callers}-callers", title, metrics, partial(_put, callers=callers))


def _put(putter: Putter, turn: Turn, callers: int) -> Sample:
    return putter.put(callers, turn)


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, Putter]]:
    with ExitStack() as stack:
        folder = stack.enter_context(bench.fresh_folder(GROUP))
        server = stack.enter_context(Server(tidemark(), folder, bench.generator))
        putters: dict[str, Putter] = {
            OURS: ContractPutter(f"oxia://{server.address}"),
            STOCK: StockPutter(server.address),
            EMBEDDED: ContractPutter(f"lmdb://{folder / 'embedded'}"),
        }
        for putter in putters.values():
            stack.callback(putter.close)
        yield putters
