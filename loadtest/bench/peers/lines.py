"""The lines of peers: sides by turns, each server alone, and the table of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import AtLeast, Better, Derived, Line, Lookup, Metric, Sample, Turn
from loadtest.bench.peers import perf
from loadtest.bench.peers.etcd import EtcdDialect
from loadtest.bench.peers.oxia import NOTIFICATIONS, RANGE_WATCHING, OxiaDialect
from loadtest.bench.peers.peer import Dialect, Peer
from loadtest.bench.peers.work import KINDS, RECORDS
from loadtest.bench.peers.zookeeper import ZookeeperDialect
from loadtest.bench.servers import Server
from loadtest.bench.settings import VALUE_BYTES, Settings

GROUP = "peers"
ALONE = "peers-alone"
ALONE_KINDS = ("put-one", "put-64", "put-100", "get-one", "get-64")
RATED = {"put-64": "puts/s", "put-100": "puts/s", "get-64": "gets/s", "mixed": "operations/s"}
"""Kinds of which the throughput counts; of the others the time of one request."""
COSTED = ("put-64", "put-100", "get-64")
"""Kinds of which the processor's time per request is shown as well; the JSON has it for all."""


def dialects(settings: Settings) -> Mapping[str, Dialect]:
    """Of every side, ours first."""
    ours, theirs = settings.programs
    etcd, zookeeper = settings.peers
    return {
        ours.side: OxiaDialect(ours, RANGE_WATCHING),
        theirs.side: OxiaDialect(theirs, NOTIFICATIONS),
        etcd.side: EtcdDialect(etcd),
        zookeeper.side: ZookeeperDialect(zookeeper),
    }


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """All by turns, each alone, and the load that nobody here wrote."""
    known = dialects(settings)
    work = f"{RECORDS:,} records, {VALUE_BYTES}-byte values, synced writes"
    together = Group(
        GROUP,
        f"The same work on every server, {work}; one works, the others are stopped",
        tuple(known),
        [_line(kind, tuple(known)[1:]) for kind in KINDS],
        partial(_open, dialects=known),
    )
    alone = [
        Group(
            f"{ALONE}-{side}",
            f"{side} alone on the machine, {work}",
            (side,),
            [_line(kind, ()) for kind in ALONE_KINDS],
            partial(_open, dialects={side: dialect}),
        )
        for side, dialect in known.items()
    ]
    return [together, *alone, *perf.groups(settings)]


def derived(settings: Settings) -> Sequence[Derived]:
    """The figures of the servers that were alone, side by side."""
    sides = tuple(dialects(settings))
    return [_alone_row(kind, sides) for kind in ALONE_KINDS]


def _line(kind: str, others: tuple[str, ...]) -> Line[Peer]:
    return Line(kind, KINDS[kind], tuple(_metrics(kind, others)), partial(_measure, kind=kind), Peer.prepare)


def _metrics(kind: str, others: tuple[str, ...]) -> Iterator[Metric]:
    checks = tuple(AtLeast(side) for side in others)
    if kind in RATED:
        yield Metric("rate", "", RATED[kind], Better.HIGHER, checks)
        yield Metric("p50_ms", "p50", "ms", Better.LOWER)
    else:
        yield Metric("p50_ms", "p50", "ms", Better.LOWER, checks)
    yield Metric("p99_ms", "p99", "ms", Better.LOWER)
    if kind in COSTED:
        yield Metric("server_cpu_us", "server's processor per request", "us", Better.LOWER)
        yield Metric("client_cpu_us", "client's processor per request", "us", Better.LOWER)


def _measure(peer: Peer, turn: Turn, kind: str) -> Sample:
    return peer.measure(turn, kind)


def _alone_row(kind: str, sides: tuple[str, ...]) -> Derived:
    metric = _metrics(kind, sides[1:])
    first = next(metric)

    def compute(lookup: Lookup) -> dict[str, float] | None:
        found = {side: lookup(f"{ALONE}-{side}/{kind}", first.key) for side in sides}
        known = {side: figures[side].value for side, figures in found.items() if figures is not None}
        return known if sides[0] in known else None

    title = " ".join(filter(None, (KINDS[kind], first.label, "each server alone")))
    return Derived(f"alone-{kind}", title, first.unit, first.better, compute, first.checks)


@contextmanager
def _open(bench: Bench, dialects: Mapping[str, Dialect]) -> Iterator[Mapping[str, Peer]]:
    """Starts every server on a fresh folder; all are stopped by signal until their turn."""
    with ExitStack() as stack:
        peers = {}
        for side, dialect in dialects.items():
            folder = stack.enter_context(bench.fresh_folder(f"{GROUP}-{side}"))
            server = stack.enter_context(Server(dialect.program, folder, bench.generator))
            server.pause()
            peers[side] = Peer(dialect, server, bench.generator)
        yield peers
