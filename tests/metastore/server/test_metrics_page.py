"""The counters, and the page on which they are shown."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from server_helpers import store_url

from metastore.engine.statistics import COUNTS, SECONDS, Histogram
from metastore.interface import BatchKind, BlockingStore, BlockingWatch, Range
from metastore.pb import oxia_pb2 as pb
from metastore.server.metrics import COUNTERS, GAUGES, HISTOGRAMS, WATCH_COUNTERS, WATCH_GAUGES
from metastore.server.router import OWN_METHODS
from support.server import ServerProcess
from support.wire import METHODS, WireClient

SHARDS = 2
CALLS = "tidemark_calls"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@settings(deadline=None, database=None, derandomize=True)
@given(st.sampled_from([SECONDS, COUNTS]), st.lists(st.floats(0, 2000, allow_nan=False)))
def test_a_histogram_counts_each_value_under_its_bound(bounds: tuple[float, ...], values: list[float]) -> None:
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    assert histogram.count == len(values)
    assert histogram.total == pytest.approx(sum(values))
    for place, bound in enumerate(bounds):
        assert sum(histogram.counts[: place + 1]) == sum(value <= bound for value in values)
    assert histogram.counts[-1] == sum(value > bounds[-1] for value in values)


def test_names_are_used_once() -> None:
    names = [name for name, _, _ in (*COUNTERS, *GAUGES, *WATCH_COUNTERS, *WATCH_GAUGES, *HISTOGRAMS)] + [CALLS]
    assert len(set(names)) == len(names)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(shards=SHARDS) as made:
        yield made


def page(server: ServerProcess) -> str:
    with urllib.request.urlopen(f"http://{server.metrics_address}/metrics", timeout=30.0) as answer:
        return str(answer.read().decode())


def samples(server: ServerProcess) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page(server))
        for sample in family.samples
    }


def in_all(taken: Samples, name: str) -> float:
    """A metric, summed up over its labels."""
    return sum(value for (each, _), value in taken.items() if each == name)


def test_every_family_is_there_for_every_shard(server: ServerProcess) -> None:
    families = {family.name: family for family in text_string_to_metric_families(page(server))}
    kinds: dict[str, Any] = {
        "counter": (*COUNTERS, *WATCH_COUNTERS),
        "gauge": (*GAUGES, *WATCH_GAUGES),
        "histogram": HISTOGRAMS,
    }
    for kind, metrics in kinds.items():
        for name, text, _ in metrics:
            family = families[name]
            assert (family.type, family.documentation) == (kind, text)
            labels = {(sample.labels["oxia_namespace"], sample.labels["shard"]) for sample in family.samples}
            assert labels == {("default", str(shard)) for shard in range(SHARDS)}
    assert {sample.labels["method"] for sample in families[CALLS].samples} == {*METHODS, *OWN_METHODS}


def tell(watch: BlockingWatch, count: int) -> None:
    """Takes so many changes from a watch."""
    while count > 0:
        count -= len(next(watch).changes)
    assert count == 0


def test_what_is_done_is_counted(server: ServerProcess) -> None:
    before = samples(server)
    with BlockingStore.open(store_url(server)) as store, store.watch() as watch, WireClient(server.address) as wire:
        while next(watch).kind is not BatchKind.SNAPSHOT_END:
            pass
        stream = wire.open("GetNotifications", pb.NotificationsRequest(shard=0))
        stream.next()
        for place in range(5):
            store.put(f"/key-{place}", b"value")
        assert len(list(store.scan())) == 5
        assert len(list(store.list())) == 5
        store.get("/key-0")
        store.delete("/key-0")
        store.delete_range(Range("/key-0", "/key-9"))
        tell(watch, 5 + 5)
        with store.open_session():
            during = samples(server)
        stream.cancel()
    after = samples(server)

    def growth(name: str) -> float:
        return in_all(after, name) - in_all(before, name)

    assert growth("oxia_server_db_puts_total") == 5
    assert growth("oxia_server_db_deletes_total") == 1
    assert growth("oxia_server_db_delete_ranges_total") == SHARDS
    assert growth("oxia_server_db_gets_total") == 1
    assert growth("oxia_server_db_range_scans_total") == 2 * SHARDS  # the scan, and the snapshot of the watch
    assert growth("oxia_server_db_lists_total") == SHARDS
    assert growth("tidemark_log_appended_bytes_total") > 0
    assert growth("tidemark_write_seconds_count") == growth("tidemark_log_next_offset")
    assert growth("tidemark_watch_changes_total") == 5 + 5
    assert in_all(during, "oxia_server_session_active") == 1
    assert in_all(after, "oxia_server_session_active") == 0
    assert in_all(during, "tidemark_notification_streams") == 1
    assert in_all(during, "tidemark_watches") == SHARDS
    assert in_all(after, "tidemark_shard_up") == SHARDS
    calls = {labels[0][1]: value for (name, labels), value in after.items() if name == f"{CALLS}_total"}
    assert calls["WriteStream"] == SHARDS
    assert calls["Watch"] == calls["Describe"] == calls["GetNotifications"] == 1
    assert calls["CreateSession"] == calls["CloseSession"] == 1
