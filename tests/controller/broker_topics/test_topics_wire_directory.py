"""Topics made, read, listed, and what they and their namespaces say: at any broker."""

from __future__ import annotations

import json

import grpc
import pytest
from topics_wire import TOPIC, Wires, active, layout_of, refusal, run_brokers

from controller.broker.topics.config import RETENTION_MINUTES_MAX
from controller.broker.topics.directory import TOPICS_PER_PAGE_MAX
from controller.broker.topics.policies import POLICY_BYTES_MAX
from controller.broker.topics.words import SUBSCRIPTIONS_MAX
from controller.layout.names import NAME_BYTES_MAX
from controller.leading.leaders import INITIAL_SEGMENTS_MAX
from controller.pb import topics_pb2 as pb
from controller.topics.records import PROPERTIES_MAX

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def test_a_topic_is_described_alike_by_all_brokers() -> None:
    async def scenario(wires: Wires) -> None:
        one, two = wires.all
        made = await one.call(
            "CreateTopic", topic="orders", segments=3, properties={"team": "a"}, subscriptions={"s": pb.STREAM}
        )
        assert made.topic == TOPIC
        assert active(made) == [0, 1, 2]
        assert json.loads(made.record)["properties"] == {"team": "a"}
        await wires.leader()
        for wire in (one, two):
            for name in ("orders", "public/default/orders", TOPIC, "persistent://public/default/orders"):
                told = await wire.call("DescribeTopic", topic=name)
                assert (told.topic, told.record, told.version_id) == (TOPIC, made.record, made.version_id)
        assert told.leader.address in {each.broker.address for each in wires.all}
        assert {each.address for each in told.owners.values()} <= {each.broker.address for each in wires.all}

    run_brokers(scenario)


def test_a_topic_is_created_once_and_found_where_it_is() -> None:
    async def scenario(wires: Wires) -> None:
        one, two = wires.all
        await one.call("CreateTopic", topic=TOPIC)
        for wire in (one, two):
            again = await refusal(wire.call("CreateTopic", topic="orders"))
            assert (again.name, again.branch, again.code) == ("TopicExists", "fatal", grpc.StatusCode.ALREADY_EXISTS)
            missing = await refusal(wire.call("DescribeTopic", topic="other"))
            assert (missing.name, missing.code) == ("TopicNotFound", grpc.StatusCode.NOT_FOUND)

    run_brokers(scenario)


def test_what_cannot_be_is_refused_by_name() -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        many = {f"p{number}": "x" for number in range(PROPERTIES_MAX + 1)}
        for fields, name in (
            ({"topic": "topic://a/b"}, "InvalidName"),
            ({"topic": ""}, "InvalidName"),
            ({"topic": "topic://a/b/" + "x" * NAME_BYTES_MAX}, "InvalidName"),
            ({"topic": "segment://a/b/c/0000-ffff-0"}, "InvalidName"),
            ({"topic": "non-persistent://a/b/c"}, "InvalidName"),
            ({"topic": "orders-partition-1"}, "InvalidName"),
            ({"topic": TOPIC, "segments": INITIAL_SEGMENTS_MAX + 1}, "InvalidTopic"),
            ({"topic": TOPIC, "properties": many}, "InvalidTopic"),
            ({"topic": TOPIC, "subscriptions": {" ": pb.STREAM}}, "InvalidName"),
            ({"topic": TOPIC, "subscriptions": {"s": 77}}, "InvalidRequest"),
            ({"topic": TOPIC, "subscriptions": dict.fromkeys(map(str, range(SUBSCRIPTIONS_MAX + 1)), pb.QUEUE)},
             "InvalidRequest"),
        ):  # fmt: skip
            refused = await refusal(wire.call("CreateTopic", **fields))
            assert (refused.name, refused.code, refused.branch) == (name, INVALID, "fatal"), fields
        assert not (await wire.call("ListTopics", namespace="public/default")).topics

    run_brokers(scenario, count=1)


def test_lists_come_in_pages_and_by_properties() -> None:
    async def scenario(wires: Wires) -> None:
        one, two = wires.all
        for number in range(4):
            await one.call("CreateTopic", topic=f"t{number}", properties={"odd": str(number % 2), "n": str(number)})
        await one.call("CreateTopic", topic="other/ns/t9")
        names = [f"topic://public/default/t{number}" for number in range(4)]
        first = await two.call("ListTopics", namespace="public/default", limit=3)
        assert (list(first.topics), first.has_more) == (names[:3], True)
        rest = await two.call("ListTopics", namespace="public/default", after=first.topics[-1])
        assert (list(rest.topics), rest.has_more) == (names[3:], False)
        odd = await two.call("ListTopics", namespace="public/default", properties={"odd": "1"})
        assert list(odd.topics) == [names[1], names[3]]
        both = await two.call("ListTopics", namespace="public/default", properties={"odd": "1", "n": "0"})
        assert not both.topics
        beyond = await one.call("ListTopics", namespace="public/default", limit=TOPICS_PER_PAGE_MAX + 1)
        assert list(beyond.topics) == names
        assert (await refusal(one.call("ListTopics", namespace="public"))).name == "InvalidName"

    run_brokers(scenario)


def test_properties_are_replaced() -> None:
    async def scenario(wires: Wires) -> None:
        one, two = wires.all
        made = await one.call("CreateTopic", topic=TOPIC, properties={"a": "1"})
        told = await two.call("SetProperties", topic=TOPIC, properties={"b": "2"})
        assert json.loads(told.record)["properties"] == {"b": "2"}
        assert told.version_id > made.version_id
        assert layout_of(told) == layout_of(made)
        assert (await refusal(two.call("SetProperties", topic="none", properties={}))).name == "TopicNotFound"
        assert (await refusal(two.call("SetProperties", topic=TOPIC, properties={"": "2"}))).name == "InvalidTopic"

    run_brokers(scenario)


def test_policies_of_namespaces_and_topics_lie_over_each_other() -> None:
    async def scenario(wires: Wires) -> None:
        one, two = wires.all
        await one.call("CreateTopic", topic=TOPIC)
        plain = await one.call("GetPolicy", topic=TOPIC)
        assert (plain.auto_scale, plain.effective_retention_minutes) == ("", -1)
        assert json.loads(plain.effective_auto_scale)["enabled"] is False
        await two.call("SetPolicy", namespace="public/default", auto_scale='{"maxSegments": 9}', retention_minutes=5)
        said = await one.call("SetPolicy", topic=TOPIC, auto_scale='{"minSegments": 2, "enabled": null}')
        assert json.loads(said.auto_scale) == {"minSegments": 2}
        holds = json.loads(said.effective_auto_scale)
        assert (holds["maxSegments"], holds["minSegments"]) == (9, 2)
        above = await one.call("GetPolicy", namespace="public/default")
        assert (json.loads(above.auto_scale), above.retention_minutes) == ({"maxSegments": 9}, 5)
        assert (await two.call("GetPolicy", topic=TOPIC)).effective_retention_minutes == 5
        cleared = await one.call("SetPolicy", namespace="public/default", auto_scale="", clears_retention=True)
        assert (cleared.auto_scale, cleared.HasField("retention_minutes")) == ("", False)
        assert (await one.call("SetPolicy", topic=TOPIC)).auto_scale == said.auto_scale

    run_brokers(scenario)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"topic": TOPIC, "auto_scale": "[1]"}, "InvalidAutoScale"),
        ({"topic": TOPIC, "auto_scale": "{"}, "InvalidAutoScale"),
        ({"topic": TOPIC, "auto_scale": '{"maxSegment": 1}'}, "InvalidAutoScale"),
        ({"topic": TOPIC, "auto_scale": '{"maxSegments": 0}'}, "InvalidAutoScale"),
        ({"topic": TOPIC, "auto_scale": " " * POLICY_BYTES_MAX + "{}"}, "InvalidAutoScale"),
        ({"topic": TOPIC, "retention_minutes": 1}, "InvalidRequest"),
        ({"topic": "none", "auto_scale": ""}, "TopicNotFound"),
        ({"namespace": "a/b", "retention_minutes": RETENTION_MINUTES_MAX + 1}, "InvalidRequest"),
        ({"namespace": "a/b", "retention_minutes": 1, "clears_retention": True}, "InvalidRequest"),
        ({"namespace": "a/b/c", "auto_scale": ""}, "InvalidName"),
        ({}, "InvalidRequest"),
    ],
)
def test_policies_that_cannot_be(fields: dict[str, object], name: str) -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        await wire.call("CreateTopic", topic=TOPIC)
        assert (await refusal(wire.call("SetPolicy", **fields))).name == name
        assert (await wire.call("GetPolicy", topic=TOPIC)).auto_scale == ""

    run_brokers(scenario, count=1)


def test_a_policy_that_an_earlier_one_contradicts_is_no_policy() -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        await wire.call("CreateTopic", topic=TOPIC)
        await wire.call("SetPolicy", topic=TOPIC, auto_scale='{"maxSegments": 3, "enabled": true}')
        await wire.call("SetPolicy", namespace="public/default", auto_scale='{"minSegments": 4}')
        told = await wire.call("GetPolicy", topic=TOPIC)
        assert json.loads(told.effective_auto_scale)["enabled"] is False

    run_brokers(scenario, count=1)
