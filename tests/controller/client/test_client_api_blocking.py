"""The client without `await`: the same names and results, from threads and from inside a running loop."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from controller.client import (
    EARLIEST,
    BlockingClient,
    Client,
    ClientClosed,
    InvalidRequest,
    SegmentConsumer,
    SegmentProducer,
    SegmentReader,
    Segments,
    Transaction,
    TransactionState,
)
from controller.client.blocking import (
    BlockingSegmentConsumer,
    BlockingSegmentProducer,
    BlockingSegmentReader,
    BlockingSegments,
    BlockingTransaction,
)
from txn.model.errors import TxnTimedOut
from txn.model.header import TxnState

_numbers = itertools.count(1)


def opened() -> BlockingClient:
    return BlockingClient.embedded(f"memory://client-api-blocking-{next(_numbers)}")


def test_receive_transform_send_without_await() -> None:
    with opened() as client:
        consumer = client.segment_consumer("orders", "billing", start=EARLIEST)
        invoices = client.segment_producer("invoices")
        with client.segment_producer("orders") as orders:
            confirmations = [orders.begin_send(b"%d" % number) for number in range(10)]
            assert [each.wait().sequence_id for each in confirmations] == list(range(10))
        for message in itertools.islice(consumer, 10):
            with client.transaction() as txn:
                invoices.send(b"for " + message.payload, txn=txn)
                consumer.acknowledge(message, txn=txn)
            assert txn.state is TransactionState.COMMITTED
            assert client.outcome(txn.id) is TxnState.COMMITTED
        with pytest.raises(TimeoutError):
            consumer.receive(timeout_ms=20)
        with client.segment_reader("invoices", follow=False) as reader:
            assert [message.payload for message in reader] == [b"for %d" % number for number in range(10)]
        assert client.segments.list() == sorted([invoices.segment, consumer.segment])
        assert client.segments.stats("orders").subscriptions["billing"].backlog_entries == 0


def test_an_error_aborts_and_stays_the_error() -> None:
    with opened() as client, client.segment_producer("orders") as producer:
        txns = []

        def block() -> None:
            with client.transaction() as txn:
                txns.append(txn)
                producer.send(b"x", txn=txn)
                _ = 1 // 0

        with pytest.raises(ZeroDivisionError):
            block()
        assert txns[0].state is TransactionState.ABORTED
        late = client.begin(timeout_ms=1)
        while late.state is TransactionState.OPEN:
            client.segments.list()
        with pytest.raises(TxnTimedOut):
            producer.send(b"x", txn=late)
        with client.segment_reader("orders", follow=False) as reader:
            assert list(reader) == []


def test_it_works_where_a_loop_is_running_and_in_many_threads() -> None:
    async def notebook() -> int:
        with opened() as client, client.segment_producer("orders") as producer:
            with ThreadPoolExecutor(8) as threads:
                sent = list(threads.map(lambda number: producer.send(b"%d" % number), range(50)))
            assert len({each.id for each in sent}) == 50
            with client.segment_consumer("orders", "s", start=EARLIEST) as consumer:
                messages = consumer.receive_many(100)
                while len(messages) < 50:
                    messages += consumer.receive_many(100)
                consumer.acknowledge_cumulative(messages[-1])
            return len(messages)

    assert asyncio.run(notebook()) == 50


def test_closing_ends_what_waits_and_leaves_no_thread() -> None:
    before = threading.active_count()
    client = opened()
    consumer = client.segment_consumer("orders", "s")
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            consumer.receive()
        except ClientClosed as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    client.close()
    client.close()
    waiting.join()
    assert len(ended) == 1
    with pytest.raises(ClientClosed):
        client.segment_producer("orders")
    assert threading.active_count() <= before + 1  # gRPC keeps one of its own


def test_what_cannot_be_opened_is_said() -> None:
    with pytest.raises(InvalidRequest, match="not the URL of brokers"):
        BlockingClient.connect("http://127.0.0.1:1")


PAIRS = [
    (Client, BlockingClient, {"segment_consumer", "segment_producer", "segment_reader"}),
    (Client, BlockingClient, {"transaction", "begin", "outcome", "close"}),
    (SegmentProducer, BlockingSegmentProducer, {"send", "flush", "close"}),
    (SegmentConsumer, BlockingSegmentConsumer, {"receive", "receive_many", "acknowledge"}),
    (SegmentConsumer, BlockingSegmentConsumer, {"acknowledge_cumulative", "seek"}),
    (SegmentConsumer, BlockingSegmentConsumer, {"negative_acknowledge", "unsubscribe", "close"}),
    (SegmentReader, BlockingSegmentReader, {"receive", "close"}),
    (Segments, BlockingSegments, {"create", "delete", "seal", "trim", "stats", "list"}),
    (Transaction, BlockingTransaction, {"commit"}),
]


@pytest.mark.parametrize(("original", "facade", "names"), PAIRS)
def test_names_and_arguments_are_those_of_the_original(original: type, facade: type, names: set[str]) -> None:
    for name in names:
        wanted = inspect.signature(getattr(original, name)).parameters.values()
        found = inspect.signature(getattr(facade, name)).parameters.values()
        assert [(each.name, each.kind, each.default) for each in found] == [
            (each.name, each.kind, each.default) for each in wanted
        ]
