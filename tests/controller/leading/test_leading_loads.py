"""What owners write down of the load of their segments (V11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from leading_world import SESSION_MS, TOPIC, within

from controller.autoscale import Load, Metric
from controller.autoscale.config import Rates
from controller.layout import Layout, TopicRecord
from controller.leading import LoadReporter, Meter
from controller.operations import data_name
from controller.topics import paths
from metastore.interface import Record
from support.world import Process, World, run, settle
from txn.hosting import Host, HostOptions
from txn.hosting.places import STORED
from txn.segment.log import StoredLogs

SEGMENTS = [data_name(TOPIC, each) for each in Layout.initial(2, 0).segments.values()]
SEGMENT = SEGMENTS[0]
KEY = paths.load_key(TOPIC, 0)


def rates(message_in: float) -> Rates:
    return {**dict.fromkeys(Metric, 0.0), Metric.MSG_RATE_IN: message_in}


async def put_topic(process: Process, layout: Layout) -> None:
    """The topic has these segments from now on."""
    await process.store.put(TOPIC.path, TopicRecord(layout).encode(), partition_key=TOPIC.path)


def owned(scenario: Callable[[World, Process, Host], Awaitable[None]]) -> None:
    """Runs it with a broker that owns two segments of the topic, and one of no topic."""

    async def whole(world: World) -> None:
        process = world.process()
        host = Host(
            process.store,
            {STORED: StoredLogs(process.store, pace=process.pace)},
            process.name,
            "here:1",
            pace=process.pace,
            options=HostOptions(session_timeout_ms=SESSION_MS),
        )
        async with host:
            await put_topic(process, Layout.initial(2, 0))
            for name in [*SEGMENTS, "plain"]:
                await host.create(name)
                await within(world, host.get(name))
            await scenario(world, process, host)

    run(whole)


async def stored(process: Process) -> Record | None:
    return await process.store.get(KEY, partition_key=TOPIC.path)


def rate_of(record: Record | None) -> float:
    assert record is not None
    return Load.decode(record.value or b"", 0).rates[Metric.MSG_RATE_IN]


@pytest.mark.parametrize(
    "reports",
    [
        [(500.0, True)],
        [(0.0, True), (0.0, False), (0.001, True)],
        [(1000.0, True), (1100.0, False), (1250.0, False), (750.0, False), (1251.0, True)],
        [(1000.0, True), (1500.0, True), (1000.0, True), (0.0, True)],
    ],
)
def test_only_what_is_different_enough_is_written(reports: list[tuple[float, bool]]) -> None:
    async def scenario(world: World, process: Process, host: Host) -> None:
        reporter = LoadReporter(host, process.store, Meter(), process.pace)
        for rate, is_written in reports:
            before = await stored(process)
            await world.pass_ms(1_000)
            assert await reporter.report(SEGMENT, rates(rate)) is is_written
            after = await stored(process)
            assert (after == before) is not is_written, "what is not written keeps its time"
            if is_written:
                assert rate_of(after) == rate

    owned(scenario)


def test_another_reporter_begins_with_what_is_written() -> None:
    async def scenario(world: World, process: Process, host: Host) -> None:
        assert await LoadReporter(host, process.store, Meter(), process.pace).report(SEGMENT, rates(1000.0))
        before = await stored(process)
        other = LoadReporter(host, process.store, Meter(), process.pace)
        assert not await other.report(SEGMENT, rates(1100.0))
        assert await stored(process) == before
        assert await other.report(SEGMENT, rates(2000.0))
        assert rate_of(await stored(process)) == 2000.0

    owned(scenario)


def test_h9_a_record_that_was_removed_with_its_segment_does_not_come_back() -> None:
    """H9: Pulsar's reporter makes it anew."""

    async def scenario(world: World, process: Process, host: Host) -> None:
        reporter = LoadReporter(host, process.store, Meter(), process.pace)
        assert await reporter.report(SEGMENT, rates(1000.0))
        await put_topic(process, Layout.initial(2, 0).split(0, 1).prune([0]))
        await process.store.delete(KEY, partition_key=TOPIC.path)
        for rate in (5000.0, 9000.0, 1.0):
            assert not await reporter.report(SEGMENT, rates(rate))
        assert await stored(process) is None

    owned(scenario)


def test_every_so_often_counts_become_rates_of_those_segments_that_are_a_topics() -> None:
    async def scenario(world: World, process: Process, host: Host) -> None:
        meter = Meter()
        task = process.start(LoadReporter(host, process.store, meter, process.pace).run())
        await settle()
        for name in (SEGMENT, "plain"):
            meter.count_in(name, 100, 5_000)
            meter.count_out(name, 50, 2_500)
        await world.pass_ms(10_000)
        record = await stored(process)
        assert record is not None
        assert Load.decode(record.value or b"", 0).rates == {
            Metric.MSG_RATE_IN: 10.0,
            Metric.BYTES_RATE_IN: 500.0,
            Metric.MSG_RATE_OUT: 5.0,
            Metric.BYTES_RATE_OUT: 250.0,
        }
        keys = [key for key in await world.keys() if key.endswith("/load")]
        assert keys == [paths.load_key(TOPIC, 0), paths.load_key(TOPIC, 1)]
        await world.pass_ms(10_000)
        assert rate_of(await stored(process)) == 0.0, "nothing was counted since"
        task.cancel()

    owned(scenario)


def test_an_interval_of_nought_reports_nothing() -> None:
    async def scenario(world: World, process: Process, host: Host) -> None:
        await LoadReporter(host, process.store, Meter(), process.pace, interval_s=0).run()

    owned(scenario)
