"""What a broker counts, and what is read off it."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from controller.broker import Broker
from controller.broker.metrics import SEGMENT_LABELS_MAX, BrokerMetrics, SegmentLag, State
from controller.pb import broker_pb2 as pb
from support.broker_helpers import (
    WireClient,
    acknowledge,
    acknowledged,
    answers,
    config,
    deliveries,
    published,
    read_all,
    run,
    sends,
    serving,
)
from txn.hosting import HostOptions

QUIET = State(
    open_transactions=0,
    oldest_open_s=0.0,
    expired=0,
    collected=0,
    segments_owned=0,
    takeovers=0,
    streams=0,
    sessions=0,
    lags=(),
)


def sample(broker: Broker, name: str, **labels: str) -> float:
    value = broker.metrics.registry.get_sample_value(name, labels)
    assert value is not None, name
    return value


def test_transactions_are_counted() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        txn_ids = [(await client.call("BeginTransaction", timeout_ms=60_000)).txn_id for _ in range(3)]
        await published(client, "s", "a", "b", txn_id=txn_ids[0])
        await published(client, "s", "plain")
        assert sample(broker, "tidemark_txn_metadata_store_begin_total") == 3
        assert sample(broker, "tidemark_txn_metadata_store_operation_total", kind="write") == 2
        assert sample(broker, "tidemark_txn_open") == 3
        assert sample(broker, "tidemark_txn_oldest_open_seconds") >= 0
        assert sample(broker, "tidemark_segment_horizon_lag_entries", segment="s") == 3
        await client.call("EndTransaction", txn_id=txn_ids[0], outcome=pb.COMMIT)
        await client.call("EndTransaction", txn_id=txn_ids[1], outcome=pb.ABORT)
        counts = {"committed": 1, "aborted": 1}
        for state, count in counts.items():
            assert sample(broker, "tidemark_txn_metadata_store_end_total", state=state, cause="client") == count
        assert sample(broker, "tidemark_txn_metadata_store_end_seconds_count") == 2
        while sample(broker, "tidemark_segment_horizon_lag_entries", segment="s"):
            await asyncio.sleep(0)
        assert sample(broker, "tidemark_txn_outcome_learned_seconds_count") == 1
        assert sample(broker, "tidemark_txn_commit_to_visible_seconds_count") == 1
        while not broker.metrics.registry.get_sample_value("tidemark_txn_settled_total", {"state": "committed"}):
            await asyncio.sleep(0)

    run(scenario)


def test_sweeps_are_counted() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("BeginTransaction", timeout_ms=1)
        for name in ("tidemark_txn_expired_total", "tidemark_txn_collected_total"):
            while not sample(broker, name):
                await asyncio.sleep(0)

    run(scenario, options=HostOptions(retention_ms=1))


def test_entries_are_counted() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        producer = await client.produce("s", "p")
        for _ in range(2):
            await producer.say(sends("abc", "de"))
            await answers(producer, 2)
        assert sample(broker, "tidemark_publish_entries_total") == 2
        assert sample(broker, "tidemark_publish_bytes_total") == 5
        await producer.say(sends("x", txn_id="?"))
        await answers(producer, 1)
        assert sample(broker, "tidemark_publish_refused_total", error="InvalidTxnId") == 1
        consumer = await client.consume("s")
        found = await deliveries(consumer, 2)
        txn_id = (await client.call("BeginTransaction", timeout_ms=60_000)).txn_id
        await consumer.say(acknowledge(1, found[0].position))
        await consumer.say(acknowledge(2, found[1].position, txn_id=txn_id))
        await acknowledged(consumer, 1, 2)
        assert sample(broker, "tidemark_acknowledge_entries_total") == 2
        assert sample(broker, "tidemark_txn_metadata_store_operation_total", kind="ack") == 1
        assert sample(broker, "tidemark_broker_streams") == 2
        await read_all(client, "s")
        assert sample(broker, "tidemark_deliver_entries_total") == 4
        assert sample(broker, "tidemark_deliver_bytes_total") == 10
        assert sample(broker, "tidemark_broker_calls_total", method="Read") == 1
        assert sample(broker, "tidemark_segments_owned") == 1
        assert sample(broker, "tidemark_segment_takeovers_total") == 1

    run(scenario)


@pytest.mark.parametrize(("label", "other"), [("local", "stored"), ("stored", "local")])
def test_syncs_of_both_kinds_of_logs_are_timed(label: str, other: str, tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        for _ in range(3):
            await published(client, "s", "one")
        assert sample(broker, "tidemark_segment_log_sync_seconds_count", log=label) == 3
        assert sample(broker, "tidemark_segment_log_sync_seconds_count", log=other) == 0
        assert sample(broker, "tidemark_segment_log_sync_seconds_sum", log=label) > 0

    run(scenario, configuration=config(tmp_path if label == "local" else None))


def test_only_so_many_segments_have_labels_and_those_are_the_worst() -> None:
    metrics = BrokerMetrics()
    lags = [SegmentLag(f"s{number}", number) for number in range(SEGMENT_LABELS_MAX + 50)]
    metrics.read_from(lambda: QUIET._replace(lags=lags))
    shown = [line for line in generate_latest(metrics.registry).decode().splitlines() if "lag_entries{" in line]
    assert len(shown) == SEGMENT_LABELS_MAX
    assert metrics.registry.get_sample_value("tidemark_segment_horizon_lag_entries", {"segment": "s50"}) == 50
    assert metrics.registry.get_sample_value("tidemark_segment_horizon_lag_entries", {"segment": "s49"}) is None


def test_the_page_is_served_from_its_own_thread() -> None:
    async def scenario() -> None:
        async with serving(config(metrics_port=0)) as (broker, client):
            await client.call("CreateSegment", segment="s")
            await client.call("LookupSegment", segment="s")
            url = f"http://127.0.0.1:{broker.metrics_port}/metrics"

            def fetch() -> str:
                with urllib.request.urlopen(url, timeout=10) as page:
                    return str(page.read().decode())

            page = await asyncio.to_thread(fetch)
            assert "tidemark_segments_owned 1.0" in page
            assert 'tidemark_segment_horizon_lag_entries{segment="s"} 0.0' in page

    asyncio.run(scenario())


def test_two_brokers_of_a_process_do_not_mix_their_counts() -> None:
    async def scenario() -> None:
        async with serving() as (first, client), serving() as (second, _):
            await client.call("BeginTransaction", timeout_ms=1_000)
            assert sample(first, "tidemark_txn_metadata_store_begin_total") == 1
            assert sample(second, "tidemark_txn_metadata_store_begin_total") == 0

    asyncio.run(scenario())
