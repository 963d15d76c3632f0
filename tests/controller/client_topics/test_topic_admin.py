"""`client.topics` at real brokers: everything that is said there arrives, and comes back as values."""

from __future__ import annotations

import asyncio

import pytest
from topics_stage import TOPIC, new_store, patiently, run, run_with_brokers

from controller.autoscale import InvalidAutoScale
from controller.broker import Broker
from controller.broker.topics.changes import Changes
from controller.client import (
    EARLIEST,
    BlockingClient,
    Client,
    InvalidRequest,
    TopicSetChange,
    TopicState,
    TopicSubscriptionKind,
    connect,
)
from controller.client.topics.names import topic_of
from controller.layout import TopicName
from controller.layout.errors import SegmentInWrongState, SegmentNotFound
from controller.pb import topics_pb2 as pb
from controller.subscriptions import WrongKind
from controller.topics.errors import InvalidTopic, NotLeader, SubscriptionNotFound, TopicExists, TopicNotFound


def test_a_topic_from_its_beginning_to_its_end() -> None:
    async def scenario(client: Client) -> None:
        topics = client.topics
        subscriptions = {"billing": TopicSubscriptionKind.STREAM, "audit": TopicSubscriptionKind.QUEUE}
        state = await topics.create("orders", segments=2, properties={"team": "a"}, subscriptions=subscriptions)
        assert str(state.topic) == TOPIC
        assert state.record.properties == {"team": "a"}
        with pytest.raises(TopicExists):
            await topics.create(TOPIC)
        assert (await topics.set_properties("orders", {"team": "b"})).version_id > state.version_id
        await topics.create("other", properties={"team": "b"})
        assert [each async for each in topics.list("public/default")] == [TOPIC, "topic://public/default/other"]
        assert [each async for each in topics.list("public/default", {"team": "a"})] == []

        state = await topics.split("orders", 0)
        assert sorted(each.segment_id for each in state.layout.active) == [1, 2, 3]
        with pytest.raises((SegmentInWrongState, SegmentNotFound)):
            await patiently(lambda: topics.split("orders", 0))
        state = await patiently(lambda: topics.merge("orders", [3, 1]))
        assert sorted(each.segment_id for each in state.layout.active) == [2, 4]
        stats = await topics.stats("orders")
        assert [each.segment_id for each in stats.topic.layout.active] == [2, 4]
        assert {name: each.kind for name, each in stats.subscriptions.items()} == subscriptions
        assert (await topics.explain("orders")).now.action == "none"

        await topics.delete("orders")
        with pytest.raises(TopicNotFound):
            await topics.describe("orders")
        with pytest.raises(TopicNotFound):
            await topics.delete("orders")

    run(scenario)


def test_subscriptions_of_a_topic() -> None:
    async def scenario(client: Client) -> None:
        topics = client.topics
        await topics.create(TOPIC)
        await topics.create_subscription(TOPIC, "audit", TopicSubscriptionKind.QUEUE, EARLIEST)
        await topics.create_subscription(TOPIC, "audit", TopicSubscriptionKind.QUEUE)
        with pytest.raises(WrongKind):
            await topics.create_subscription(TOPIC, "audit", TopicSubscriptionKind.STREAM)
        async with await client.producer(TOPIC) as producer:
            for _ in range(3):
                await producer.send(b"x")
        assert (await topics.stats(TOPIC)).subscriptions["audit"].backlog_entries == 3
        await topics.skip_all(TOPIC, "audit")
        assert (await topics.stats(TOPIC)).subscriptions["audit"].backlog_entries == 0
        await topics.seek(TOPIC, "audit", 0)
        assert (await topics.stats(TOPIC)).subscriptions["audit"].backlog_entries == 3
        with pytest.raises(SubscriptionNotFound):
            await topics.seek(TOPIC, "nobody", 0)
        await topics.delete_subscription(TOPIC, "audit")
        await topics.delete_subscription(TOPIC, "audit")
        assert not (await topics.stats(TOPIC)).subscriptions

    run(scenario)


def test_policies() -> None:
    async def scenario(client: Client) -> None:
        topics = client.topics
        await topics.create(TOPIC)
        before = await topics.policy(TOPIC)
        assert before.auto_scale is None
        await topics.set_namespace_policy("public/default", {"maxSegments": 32})
        policy = await topics.set_policy(TOPIC, {"minSegments": 2})
        assert policy.auto_scale == {"minSegments": 2}
        assert (policy.effective_auto_scale["maxSegments"], policy.effective_auto_scale["minSegments"]) == (32, 2)
        assert (await topics.set_retention("public/default", 7)).retention_minutes == 7
        assert (await topics.policy(TOPIC)).effective_retention_minutes == 7
        assert (await topics.set_retention("public/default", None)).retention_minutes is None
        assert (await topics.set_policy(TOPIC, None)).auto_scale is None
        assert (await topics.namespace_policy("public/default")).auto_scale == {"maxSegments": 32}
        with pytest.raises(InvalidAutoScale):
            await topics.set_policy(TOPIC, {"minSegments": 0})

    run(scenario)


def test_what_is_wrong_is_refused_here() -> None:
    async def scenario(client: Client) -> None:
        topics = client.topics
        for wrong in ("", "a/b", "segment://a/b/c/0000-ffff-0", "non-persistent://a/b/c", "orders-partition-1"):
            with pytest.raises(InvalidRequest):
                await topics.describe(wrong)
        with pytest.raises(InvalidRequest, match="non-persistent topics are not supported"):
            topic_of(TopicName.parse("non-persistent://a/b/c"))
        with pytest.raises(InvalidRequest):
            await topics.create(TOPIC, segments=0)
        with pytest.raises(InvalidRequest):
            await topics.split(TOPIC, -1)
        with pytest.raises(InvalidRequest):
            await topics.namespace_policy("nothing")
        with pytest.raises(InvalidTopic):
            await topics.create(TOPIC, segments=1 << 20)

    run(scenario)


def test_a_watch_tells_each_change_and_the_end() -> None:
    async def scenario(url: str, brokers: list[Broker]) -> None:
        async with await connect(url) as client, await connect(f"tidemark://{brokers[1].address}") as other:
            told: list[TopicState | None] = []
            watch = client.topics.watch(TOPIC)
            told.append(await anext(watch))
            assert told == [None]
            await other.topics.create(TOPIC)

            async def until(segments: int) -> None:
                while (state := await anext(watch)) is None or len(state.layout.active) != segments:
                    told.append(state)
                told.append(state)

            await until(1)
            await other.topics.split(TOPIC, 0)
            await until(2)
            versions = [each.version_id for each in told if each is not None]
            assert versions == sorted(versions)
            await brokers.pop(0).__aexit__(None, None, None)
            await patiently(lambda: other.topics.split(TOPIC, 1))
            await until(3)
            await other.topics.delete(TOPIC)
            while await anext(watch) is not None:
                pass
            await watch.aclose()

    run_with_brokers(2, scenario)


def test_h12_what_is_older_than_what_is_known_is_dropped() -> None:
    async def scenario(client: Client) -> None:
        before = await client.topics.create(TOPIC)
        after = await client.topics.split(TOPIC, 0)
        view = client._layouts.take(before.topic)
        assert view is client._layouts.take(before.topic), "one for all of a client"
        view.learn(after)
        view.learn(before)
        assert view.state is not None
        assert view.state.version_id >= after.version_id
        await client._layouts.give_back(view)
        assert view.failure is None
        await client._layouts.give_back(view)
        assert view.failure is not None

    run(scenario)


def test_a_namespace_is_watched() -> None:
    async def scenario(client: Client) -> None:
        topics = client.topics
        await topics.create("a", properties={"team": "x"})
        await topics.create("b")
        watch = topics.watch_namespace("public/default", {"team": "x"})
        name = "topic://public/default/{}".format
        assert await anext(watch) == TopicSetChange(frozenset(), frozenset({name("a")}))
        await topics.set_properties("b", {"team": "x"})
        assert await anext(watch) == TopicSetChange(frozenset(), frozenset({name("b")}))
        await topics.delete("a")
        assert await anext(watch) == TopicSetChange(frozenset({name("a")}), frozenset())
        await watch.aclose()

    run(scenario)


def test_all_of_it_without_await() -> None:
    with BlockingClient.embedded(new_store()) as client:
        client.topics.create("orders", segments=2, subscriptions={"audit": TopicSubscriptionKind.QUEUE})
        with client.producer("orders", name="importer", first_sequence_id=5) as producer:
            assert (producer.topic, producer.name, producer.last_sequence_id) == (TOPIC, "importer", None)
            with client.transaction() as txn:
                sent = [producer.begin_send(b"x", key="k", properties={"a": "b"}, txn=txn) for _ in range(10)]
            assert [each.wait().sequence_id for each in sent] == list(range(5, 15))
            assert producer.send(b"y").sequence_id == 15
            producer.flush()
        assert client.topics.list("public/default") == [TOPIC]
        assert client.topics.set_properties("orders", {"a": "b"}).record.properties == {"a": "b"}
        states = client.topics.watch("orders")
        state = next(states)
        assert state is not None
        assert len(state.layout.active) == 2
        states.close()
        changes = client.topics.watch_namespace("public/default")
        assert next(changes).added == {TOPIC}
        changes.close()
        assert len(client.topics.merge("orders", [1, 0]).layout.active) == 1
        client.topics.create_subscription("orders", "more", TopicSubscriptionKind.STREAM)
        assert set(client.topics.stats("orders").subscriptions) == {"audit", "more"}
        client.topics.seek("orders", "audit", 0)
        client.topics.skip_all("orders", "audit")
        client.topics.delete_subscription("orders", "more")
        client.topics.set_policy("orders", {"maxSegments": 8})
        assert client.topics.policy("orders").auto_scale == {"maxSegments": 8}
        client.topics.set_namespace_policy("public/default", None)
        client.topics.set_retention("public/default", -1)
        assert client.topics.namespace_policy("public/default").retention_minutes == -1
        assert client.topics.explain("orders").now.action == "none"
        assert client.topics.describe("orders").record.auto_scale_policy == {"maxSegments": 8}
        client.topics.create("other")
        assert len(client.topics.split("other", 0).layout.active) == 2
        client.topics.delete("other")


def test_closing_a_client_ends_its_watches() -> None:
    async def scenario(client: Client) -> None:
        watch = client.topics.watch(TOPIC)
        assert await anext(watch) is None
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(Exception, match="not watched any more"):
            await waiting

    run(scenario)


def lose_answers(monkeypatch: pytest.MonkeyPatch, failures: list[Exception]) -> None:
    """Brokers delete what they are asked to, and then these failures come in the place of their answers."""
    delete = Changes.delete

    async def deleted(self: Changes, request: pb.DeleteTopicRequest, principal: str | None) -> pb.DeleteTopicResponse:
        try:
            return await delete(self, request, principal)
        finally:
            if failures:
                raise failures.pop(0)

    monkeypatch.setattr(Changes, "delete", deleted)


def test_what_was_deleted_and_asked_again_behind_a_lost_answer_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Exception] = []
    lose_answers(monkeypatch, failures)

    async def scenario(client: Client) -> None:
        await client.topics.create(TOPIC)
        failures.append(NotLeader("the broker that did it has just gone"))
        await client.topics.delete(TOPIC)
        assert failures == []
        with pytest.raises(TopicNotFound):
            await client.topics.describe(TOPIC)

    run(scenario)


def test_of_what_was_not_there_a_redirect_does_not_make_a_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Exception] = []
    lose_answers(monkeypatch, failures)

    async def scenario(url: str, brokers: list[Broker]) -> None:
        async with await connect(url) as client:
            failures.append(NotLeader("another broker leads it", brokers[0].address))
            with pytest.raises(TopicNotFound):
                await client.topics.delete(TOPIC)
            assert failures == []

    run_with_brokers(1, scenario)
