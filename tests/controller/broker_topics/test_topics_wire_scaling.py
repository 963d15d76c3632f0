"""A topic splits by itself when it is hot and merges when it is cold; and what is counted of all that."""

from __future__ import annotations

import asyncio

from prometheus_client import generate_latest
from topics_wire import TOPIC, TopicWire, Wires, active, brokers, run_brokers

from controller.broker import BrokerConfig
from controller.broker.topics.config import TopicsConfig
from controller.broker.topics.metrics import (
    SEGMENT_LABELS_MAX,
    TOPIC_LABELS_MAX,
    SegmentFigures,
    TopicFigures,
    TopicsCollector,
    TopicsState,
)
from controller.layout import HashRange, TopicName
from controller.leading import ScaleCounts
from controller.leading.loads import STILL as NO_LOAD
from controller.pb import topics_pb2 as pb
from support.broker_helpers import WireStream, deliveries, sends

WHOLE = str(TopicName.parse(TOPIC).segment(HashRange(0, 0xFFFF), 0))
EAGER = TopicsConfig(
    scalable_topic_max_segments=2,
    scalable_topic_split_msg_rate_in_threshold=2.0,
    scalable_topic_merge_msg_rate_in_threshold=1.0,
    scalable_topic_split_cooldown_s=0,
    scalable_topic_merge_cooldown_s=0,
    scalable_topic_merge_window_s=0,
    scalable_topic_load_report_interval_s=0.1,
    scalable_topic_auto_scale_interval_s=0.1,
    scalable_topic_retention_minutes=-1,
)


async def owner(wires: Wires) -> TopicWire:
    """Who owns the first segment."""
    told = await wires.all[0].client.call("LookupSegment", segment=WHOLE)
    (found,) = (each for each in wires.all if each.broker.address == told.address)
    return found


async def until_active(stream: WireStream, count: int) -> list[int]:
    """The active segments, once there are so many."""
    while len(found := active((await stream.next()).state)) != count:
        pass
    return found


def sample(wire: TopicWire, name: str, **labels: str) -> float:
    value = wire.broker.metrics.registry.get_sample_value(name, labels)
    assert value is not None, name
    return value


def test_what_is_published_splits_a_topic_and_silence_merges_it() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        watch = leader.watch("WatchTopic", topic=TOPIC)
        await until_active(watch, 1)
        stream = await (await owner(wires)).client.produce(WHOLE)
        await stream.say(sends(*(str(number) for number in range(50))))
        assert await until_active(watch, 2) == [1, 2]
        assert await until_active(watch, 1) == [3]
        log = (await leader.call("ExplainScaling", topic=TOPIC)).log
        done = [(each.decision.action, each.decision.reason) for each in log if each.outcome == "done"]
        assert done == [("split", "msgRateIn"), ("merge", "cold")]
        assert sample(leader, "tidemark_scalable_topic_auto_splits_total", topic=TOPIC) == 1
        assert sample(leader, "tidemark_scalable_topic_auto_merges_total", topic=TOPIC) == 1
        assert sample(leader, "tidemark_scalable_topic_active_segments", topic=TOPIC) == 1
        assert sample(leader, "tidemark_topic_operations_total", kind="split") == 1
        assert sample(leader, "tidemark_topic_segments_sealed_total") == 3

    run_brokers(scenario, topics=EAGER)


def test_consumers_that_come_split_a_topic_as_far_as_it_may_be() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        watch = leader.watch("WatchTopic", topic=TOPIC)
        members = [await leader.member(name) for name in ("one", "two", "three")]
        assert await until_active(watch, 2) == [1, 2]
        for each in members:
            assert (await each.next()).HasField("assignment")
        suppressed = "tidemark_scalable_topic_split_suppressed_max_segments_total"
        while sample(leader, suppressed, topic=TOPIC) < 1:
            await asyncio.sleep(0)
        assert sample(leader, "tidemark_scalable_topic_merge_suppressed_max_depth_total", topic=TOPIC) == 0
        assert sample(leader, "tidemark_topic_rebalances_total") >= 3
        assert sample(leader, "tidemark_topic_assignments_total") >= 3

    quiet = TopicsConfig(scalable_topic_max_segments=2, scalable_topic_split_cooldown_s=0)
    run_brokers(scenario, topics=quiet, count=1)


def test_a_policy_that_is_set_at_another_broker_is_followed() -> None:
    async def scenario(wires: Wires) -> None:
        leader, other = await wires.created(), await wires.other()
        members = [await leader.member(name) for name in ("one", "two")]
        for each in members:
            await each.next()
        await other.call("SetPolicy", namespace="public/default", auto_scale='{"enabled": true}')
        assert await until_active(other.watch("WatchTopic", topic=TOPIC), 2) == [1, 2]

    run_brokers(scenario)


def test_what_a_broker_owns_and_leads_can_be_read_off() -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        await wire.call("CreateTopic", topic=TOPIC, subscriptions={"s": pb.QUEUE})
        stream = await wire.client.produce(WHOLE)
        await stream.say(sends("a", "b"))
        consumer = await wire.client.consume(WHOLE, "s")
        await deliveries(consumer, 2)
        assert sample(wire, "tidemark_segment_backlog_entries", segment=WHOLE) == 2
        assert sample(wire, "tidemark_segment_consumers", segment=WHOLE) == 1
        assert sample(wire, "tidemark_topics_led") == 1
        assert sample(wire, "tidemark_topic_takeovers_total") == 1
        watch = wire.watch("WatchTopic", topic=TOPIC)
        await watch.next()
        assert sample(wire, "tidemark_broker_sessions") == 1
        reported = {"direction": "in", "topic": TOPIC}
        while sample(wire, "tidemark_scalable_topic_messages_per_second", **reported) == 0:
            await asyncio.sleep(0)

    async def whole() -> None:
        report = TopicsConfig(scalable_topic_auto_scale_enabled=False, scalable_topic_load_report_interval_s=0.1)
        async with brokers(1, topics=report) as wires:
            await scenario(wires)

    asyncio.run(whole())


def test_only_so_many_topics_and_segments_have_metrics_of_their_own() -> None:
    topics = [TopicFigures(f"t{n}", n, ScaleCounts(), NO_LOAD) for n in range(TOPIC_LABELS_MAX + 1)]
    segments = [SegmentFigures(f"s{n}", n, 0, NO_LOAD) for n in range(SEGMENT_LABELS_MAX + 1)]
    state = TopicsState(topics, segments, 0, {}, 0, 0, 0)
    found = {family.name: family.samples for family in TopicsCollector(lambda: state).collect()}
    assert {each.labels["topic"] for each in found["tidemark_scalable_topic_active_segments"]} == {
        f"t{n}" for n in range(1, TOPIC_LABELS_MAX + 1)
    }
    assert {each.labels["segment"] for each in found["tidemark_segment_backlog_entries"]} == {
        f"s{n}" for n in range(1, SEGMENT_LABELS_MAX + 1)
    }
    assert len(found["tidemark_segment_messages_per_second"]) == 2 * SEGMENT_LABELS_MAX


def test_a_broker_without_topics_has_metrics_all_the_same() -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        text = generate_latest(wire.broker.metrics.registry).decode()
        assert "tidemark_topics_led 0.0" in text
        assert BrokerConfig().topics == TopicsConfig()

    run_brokers(scenario, count=1)
