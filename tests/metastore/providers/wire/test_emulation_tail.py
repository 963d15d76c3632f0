"""Notifications of one shard: none is missing, or it is said that some are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager

import pytest
from emulation_model import ModelShard, ModelShards, Put

from metastore.interface import TokenExpired, Unavailable
from metastore.providers.wire.emulation.tail import (
    APPLYING_MAX,
    PATIENCE_S,
    QUIET_S,
    WAITING_BATCHES_MAX,
    Skipped,
    Tail,
)
from support.virtual_time import run_virtually


@asynccontextmanager
async def tail_of(writes: int) -> AsyncGenerator[tuple[ModelShards, ModelShard, Tail], None]:
    shards = ModelShards(random.Random(1))
    write(shards.shards[0], writes)
    tail = Tail(shards, 0)
    yield shards, shards.shards[0], tail
    await tail.close()


def write(shard: ModelShard, count: int = 1, is_applied: bool = True) -> None:
    for _ in range(count):
        shard.write([Put("a")], is_applied)


async def elapsed_s(what: Awaitable[object]) -> float:
    """How long something takes by the virtual clock."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    await what
    return loop.time() - begun_s


def test_it_begins_behind_what_was_written() -> None:
    async def scenario() -> None:
        async with tail_of(writes=10) as (_, shard, tail):
            assert await elapsed_s(tail.begin()) <= QUIET_S
            assert tail.position == 9
            write(shard, 2)
            assert [(await tail.next()).offset, (await tail.next()).offset] == [10, 11]

    run_virtually(scenario())


def test_what_is_still_being_applied_is_waited_for() -> None:
    """Reads do not show the write yet, so what follows must."""

    async def scenario() -> None:
        async with tail_of(writes=3) as (_, shard, tail):
            write(shard, 2, is_applied=False)
            beginning = asyncio.ensure_future(tail.begin())
            await asyncio.sleep(PATIENCE_S / 2)
            assert not beginning.done()
            shard.apply()
            await beginning
            assert tail.position == 4

    run_virtually(scenario())


@pytest.mark.parametrize("older", [0, APPLYING_MAX])
def test_what_is_applied_after_all_patience_is_told_or_reported(older: int) -> None:
    """`older` writes are trimmed, which leaves nothing by which to know where the server stands."""

    async def scenario() -> None:
        async with tail_of(writes=3 + older) as (_, shard, tail):
            shard.oldest = older + 3 if older else 0
            write(shard, 2, is_applied=False)
            await tail.begin()
            shard.apply()
            write(shard)
            if older:
                with pytest.raises(Skipped):
                    await tail.next()
                assert not await tail.go_on()
            else:
                assert [(await tail.next()).offset for _ in range(3)] == [3, 4, 5]

    run_virtually(scenario())


def test_an_idle_shard_is_begun_at_its_last_offset() -> None:
    """All its notifications were trimmed; there is no way to have one of them."""

    async def scenario() -> None:
        async with tail_of(writes=10) as (shards, shard, tail):
            shard.oldest = 10
            await tail.begin()
            assert tail.position == 9
            assert [batch async for batch in tail.up_to_newest()] == []
            await asyncio.sleep(1)
            calls = shards.calls
            write(shard)
            assert (await tail.next()).offset == 10
            assert shards.calls == calls + 1  # it looked whether something had come late

    run_virtually(scenario())


def test_offsets_without_a_batch_are_waited_for_once() -> None:
    async def scenario() -> None:
        async with tail_of(writes=3) as (_, shard, tail):
            await tail.begin()
            shard.fail()
            assert await elapsed_s(drained(tail)) >= PATIENCE_S
            assert await elapsed_s(drained(tail)) < PATIENCE_S
            write(shard)
            assert (await tail.next()).offset == 4

    run_virtually(scenario())


async def drained(tail: Tail) -> list[int]:
    return [batch.offset async for batch in tail.up_to_newest()]


def test_a_connection_that_breaks_loses_nothing() -> None:
    async def scenario() -> None:
        async with tail_of(writes=3) as (shards, shard, tail):
            await tail.begin()
            shards.cut()
            write(shard, 2)
            with pytest.raises(Unavailable):
                await tail.next()
            assert await tail.go_on()
            assert [(await tail.next()).offset, (await tail.next()).offset] == [3, 4]
            assert await drained(tail) == []

    run_virtually(scenario())


@pytest.mark.parametrize(("oldest", "is_whole"), [(2, True), (3, True), (4, False), (5, False)])
def test_what_was_trimmed_meanwhile_is_noticed(oldest: int, is_whole: bool) -> None:
    async def scenario() -> None:
        async with tail_of(writes=3) as (shards, shard, tail):
            await tail.begin()
            shards.cut()
            write(shard, 2)
            shard.oldest = oldest
            assert await tail.go_on() is is_whole
            assert await tail.go_on() is is_whole

    run_virtually(scenario())


def test_a_gap_in_a_stream_is_found_out() -> None:
    """Requests that fail as a whole leave one, and so does trimming."""

    async def scenario() -> None:
        async with tail_of(writes=3) as (_, shard, tail):
            await tail.begin()
            shard.fail()
            write(shard)
            assert (await tail.next()).offset == 4
            write(shard, 2)
            shard.oldest = 6
            with pytest.raises(Skipped):
                await tail.next()
            assert not await tail.go_on()

    run_virtually(scenario())


@pytest.mark.parametrize("further_writes", [0, 1])
def test_a_stream_that_was_held_up_may_have_lost_what_it_had_to_say(further_writes: int) -> None:
    async def scenario() -> None:
        async with tail_of(writes=3) as (shards, shard, tail):
            await tail.begin()
            write(shard, WAITING_BATCHES_MAX + 10)
            await asyncio.sleep(60)
            shard.oldest = shard.applied + 1
            write(shard, further_writes)
            told = [(await tail.next()).offset for _ in range(WAITING_BATCHES_MAX + 1)]
            assert told == list(range(3, 3 + WAITING_BATCHES_MAX + 1))
            with pytest.raises(Skipped):
                await tail.next()
            assert shards.calls < 10

    run_virtually(scenario())


def test_a_stream_that_was_held_up_and_lost_nothing_goes_on() -> None:
    async def scenario() -> None:
        async with tail_of(writes=0) as (_, shard, tail):
            await tail.begin()
            write(shard, WAITING_BATCHES_MAX * 3)
            await asyncio.sleep(60)
            assert await drained(tail) == list(range(WAITING_BATCHES_MAX * 3))
            waiting = asyncio.ensure_future(tail.next())
            await asyncio.sleep(60)
            write(shard)
            assert (await waiting).offset == WAITING_BATCHES_MAX * 3

    run_virtually(scenario())


@pytest.mark.parametrize("believed", [-1, 0, 7])
def test_a_killed_server_is_not_believed(believed: int) -> None:
    """It says that it was written up to there only. What it has beyond comes without asking."""

    async def scenario() -> None:
        async with tail_of(writes=300) as (shards, _, tail):
            shards.kill(0, believed)
            await tail.begin()
            assert tail.position == 299
            assert await drained(tail) == []

    run_virtually(scenario())


def test_a_killed_server_is_gone_on_with() -> None:
    async def scenario() -> None:
        async with tail_of(writes=3) as (shards, shard, tail):
            await tail.begin()
            write(shard, 3)
            shards.kill(0, 1)
            with pytest.raises(Unavailable):
                await drained(tail)
            assert await tail.go_on()
            await drained(tail)
            assert tail.position == 5

    run_virtually(scenario())


def test_a_shard_that_lost_its_data_is_another_one() -> None:
    async def scenario() -> None:
        async with tail_of(writes=10) as (shards, _, tail):
            await tail.begin()
            shards.shards[0] = ModelShard(shards.order)
            write(shards.shards[0], 2)
            shards.cut()
            assert not await tail.go_on()
            with pytest.raises(TokenExpired, match="lost data"):
                await tail.begin()

    run_virtually(scenario())


@pytest.mark.parametrize(("position", "can_go_on"), [(1, True), (4, True), (5, True), (6, False), (-1, False)])
def test_a_position_of_old_is_resumed_if_it_is_still_known(position: int, can_go_on: bool) -> None:
    async def scenario() -> None:
        async with tail_of(writes=6) as (_, shard, tail):
            if position == 1:
                shard.oldest = 2  # the first batch that is wanted is there, and so nothing is missing
            assert await tail.resume(position) is can_go_on
            if can_go_on:
                assert await drained(tail) == list(range(position + 1, 6))

    run_virtually(scenario())


def test_a_cancelled_wait_loses_nothing() -> None:
    async def scenario() -> None:
        async with tail_of(writes=3) as (_, shard, tail):
            await tail.begin()
            told = []
            for number in range(40):
                waiting = asyncio.ensure_future(tail.next())
                await turns(number % 5)
                write(shard)
                if number % 3 == 0:
                    shard.fail()  # the next one has to be looked after
                await turns(number % 7)
                waiting.cancel()
                await asyncio.wait({waiting})
                if not waiting.cancelled():
                    told.append(waiting.result().offset)
            told += await drained(tail)
            assert told == sorted(number for number in shard.batches if number > 2)

    run_virtually(scenario())


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_bug_in_the_stream_is_no_silence() -> None:
    async def scenario() -> None:
        async with tail_of(writes=3) as (shards, _, tail):
            await tail.begin()
            shards.shards[0].kept_from = None  # type: ignore[assignment, method-assign]
            shards.shards[0].ring()
            with pytest.raises(TypeError):
                await tail.next()

    run_virtually(scenario())
