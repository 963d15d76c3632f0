"""Consumers without `await`: the same names, results and errors."""

from __future__ import annotations

import inspect
import itertools

import pytest

from controller.client import (
    EARLIEST,
    BlockingClient,
    Checkpoint,
    CheckpointConsumer,
    CheckpointGroupConsumer,
    Client,
    NamespaceQueueConsumer,
    NamespaceStreamConsumer,
    QueueConsumer,
    StreamConsumer,
)
from controller.client.blocking import consumers as blocking
from controller.client.consumers.doors import ConsumerDoors
from controller.topics.errors import TopicNotFound

PAIRS = [
    (StreamConsumer, blocking.BlockingStreamConsumer),
    (QueueConsumer, blocking.BlockingQueueConsumer),
    (CheckpointConsumer, blocking.BlockingCheckpointConsumer),
    (CheckpointGroupConsumer, blocking.BlockingCheckpointGroupConsumer),
    (NamespaceStreamConsumer, blocking.BlockingNamespaceStreamConsumer),
    (NamespaceQueueConsumer, blocking.BlockingNamespaceQueueConsumer),
]
ATTRIBUTES = {"topic", "namespace", "subscription", "name"}
"""Of the originals' objects, not of their classes."""
OF_THE_LOOP = {"running", "wait_opened"}
"""What only a client needs."""
PATIENCE_MS = 20_000

_numbers = itertools.count(1)


def opened() -> BlockingClient:
    return BlockingClient.embedded(f"memory://consumers-blocking-{next(_numbers)}")


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("original", "facade"), PAIRS)
def test_each_has_what_its_original_has(original: type, facade: type) -> None:
    missing = public(original) - public(facade) - OF_THE_LOOP
    assert not missing
    surplus = {each for each in public(facade) - public(original) - ATTRIBUTES if not each.startswith("begin_")}
    assert not surplus
    for name in public(original) & public(facade):
        function = inspect.getattr_static(original, name)
        if inspect.isfunction(function):
            ours = inspect.signature(inspect.getattr_static(facade, name))
            assert list(inspect.signature(function).parameters) == list(ours.parameters), name


def test_the_client_opens_them_all_in_the_same_way() -> None:
    for name in public(ConsumerDoors):
        original, ours = getattr(Client, name), getattr(BlockingClient, name)
        assert str(inspect.signature(original)).split(" ->")[0] == str(inspect.signature(ours)).split(" ->")[0]


def test_no_kind_offers_what_belongs_to_another() -> None:
    settling = {"acknowledge", "acknowledge_cumulative", "negative_acknowledge", "commit", "checkpoint"}
    offered = {original.__name__: sorted(public(original) & settling) for original, _ in PAIRS}
    assert offered == {
        "StreamConsumer": ["acknowledge_cumulative"],
        "QueueConsumer": ["acknowledge", "negative_acknowledge"],
        "CheckpointConsumer": ["checkpoint"],
        "CheckpointGroupConsumer": ["checkpoint", "commit"],
        "NamespaceStreamConsumer": ["acknowledge_cumulative"],
        "NamespaceQueueConsumer": ["acknowledge", "negative_acknowledge"],
    }


def test_receive_acknowledge_and_go_on() -> None:
    with opened() as client, client.producer("orders") as producer:
        for number in range(6):
            producer.send(b"%d" % number, key="k")
        with client.stream_consumer("orders", "billing", start=EARLIEST, name="one") as stream:
            stream.wait_attached()
            assert len(stream.segments) == 1
            messages = [stream.receive(PATIENCE_MS) for _ in range(3)]
            with client.transaction() as txn:
                stream.acknowledge_cumulative(messages[-1], txn=txn)
        with client.stream_consumer("orders", "billing", name="one") as stream:
            assert [each.payload for each in (stream.receive(PATIENCE_MS) for _ in range(3))] == [b"3", b"4", b"5"]
        with client.queue_consumer("orders", "work", start=EARLIEST) as queue:
            queue.wait_attached()
            many = queue.receive_many(10, PATIENCE_MS)
            queue.negative_acknowledge(many[0])
            queue.acknowledge(*many[1:])
            assert queue.receive(PATIENCE_MS).payload
        with client.checkpoint_consumer("orders", start=EARLIEST) as reader:
            assert [reader.receive(PATIENCE_MS).payload for _ in range(2)] == [b"0", b"1"]
            kept = str(reader.checkpoint())
        with client.checkpoint_consumer("orders", start=Checkpoint.parse(kept)) as reader:
            assert reader.receive(PATIENCE_MS).payload == b"2"
        with client.checkpoint_group_consumer("orders", "group", start=EARLIEST) as member:
            member.receive(PATIENCE_MS)
            member.commit()
            assert len(member.checkpoint().positions) == 1
        with pytest.raises(TopicNotFound):
            client.stream_consumer("nowhere", "billing", create=False)


def test_namespaces() -> None:
    with opened() as client:
        client.topics.create("acme/sales/a", properties={"colour": "red"})
        with (
            client.producer("acme/sales/a") as producer,
            client.namespace_stream_consumer(
                "acme/sales", "billing", properties={"colour": "red"}, start=EARLIEST
            ) as stream,
            client.namespace_queue_consumer("acme/sales", "work", start=EARLIEST) as queue,
        ):
            producer.send(b"1")
            message = stream.receive(PATIENCE_MS)
            stream.acknowledge_cumulative(message)
            assert message.topic == "topic://acme/sales/a"
            queue.acknowledge(queue.receive(PATIENCE_MS))
            assert stream.topics == queue.topics == ("topic://acme/sales/a",)
