"""Reports of segments stand beside topics that have these segments, and nowhere else, however late they come."""

from __future__ import annotations

import pytest
from leading_world import TOPIC

from controller.layout import Layout, TopicName, TopicRecord
from controller.leading.reporting import Reported, put_report, reported
from controller.topics import paths
from metastore.interface import ABSENT, ConditionFailed, UnexpectedVersion
from support.world import Process, World, run, settle

TWO = Layout.initial(2, 0)
SEGMENT = Reported(TOPIC, 0, str(TOPIC.segment(TWO.segments[0].range, 0)))
KEY = paths.drained_key(TOPIC, 0, "s")
every_store = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


async def put_topic(process: Process, layout: Layout) -> None:
    await process.store.put(TOPIC.path, TopicRecord(layout).encode(), partition_key=TOPIC.path)


async def report(process: Process, expected: int = ABSENT) -> int | None:
    return await put_report(process.store, SEGMENT, KEY, b"{}", expected)


@every_store
def test_a_report_stands_beside_its_topic(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await put_topic(process, TWO)
        version_id = await report(process)
        assert version_id is not None
        found = await process.store.get(KEY, partition_key=TOPIC.path)
        assert found is not None
        assert found.version.version_id == version_id
        with pytest.raises((ConditionFailed, UnexpectedVersion)):
            await report(process)
        assert await report(process, version_id) is not None

    run(scenario, lacks)


@every_store
def test_there_is_none_of_what_a_topic_does_not_have(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        assert await report(process) is None, "there is no topic"
        await put_topic(process, TWO.split(0, 1).prune([0]))
        assert await report(process) is None, "the segment was pruned"
        assert KEY not in await world.keys()

    run(scenario, lacks)


@every_store
@pytest.mark.parametrize("comes_again", [False, True])
def test_h11_a_report_that_comes_too_late_is_not_taken_for_one_of_the_next_topic(
    comes_again: bool, lacks: tuple[str, ...]
) -> None:
    """H9, H11: it would say that a new segment, of the same number, was read to its end by everybody."""

    async def scenario(world: World) -> None:
        process, other = world.process(), world.process()
        await put_topic(process, TWO)
        gate = process.script.hold("put" if lacks else "transact", prefix=KEY)
        late = process.start(report(process))
        await settle()
        await other.store.delete(TOPIC.path, partition_key=TOPIC.path)
        await world.pass_ms(1_000)
        if comes_again:
            await put_topic(other, TWO)
        gate.release()
        await settle()
        if lacks:
            assert late.result() is None
        else:
            assert isinstance(late.exception(), ConditionFailed)
        assert KEY not in await world.keys()

    run(scenario, lacks)


def test_whose_segments_there_are() -> None:
    assert reported(SEGMENT.name) == SEGMENT
    for name in ("orders", "no segment of a topic", "segment://t/ns/x", "persistent://t/ns", "topic://t/ns/x"):
        assert reported(name) is None, name


@pytest.mark.parametrize(("name", "number"), [("persistent://t/ns/x", 0), ("persistent://t/ns/x-partition-3", 3)])
def test_h15_data_of_the_old_kind_are_of_the_topic_that_was_made_of_it(name: str, number: int) -> None:
    assert reported(name) == Reported(TopicName.parse("topic://t/ns/x"), number, name)


@every_store
def test_h15_a_segment_of_another_name_is_not_the_topics(lacks: tuple[str, ...]) -> None:
    """There is a topic of the name that somebody's data of the old kind have, and was not made of them."""

    async def scenario(world: World) -> None:
        process = world.process()
        await put_topic(process, TWO)
        old = reported("persistent://tenant/ns/my-topic")
        assert old is not None
        assert old.topic == TOPIC
        assert await put_report(process.store, old, KEY, b"{}", ABSENT) is None
        assert KEY not in await world.keys()

    run(scenario, lacks)
