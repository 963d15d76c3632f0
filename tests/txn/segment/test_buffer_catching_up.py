"""What was committed may be read by whoever was told so, though no watch has told the owner of the segment yet."""

from __future__ import annotations

import asyncio

import pytest
from buffer_stage import ABORTED, COMMITTED, Lacks, Stage, both_stores, confirmed, decide, play

from metastore.interface import Unavailable
from support.world import settle
from txn.model import paths
from txn.model.errors import SegmentUnavailable


@both_stores
def test_a_commit_that_no_watch_has_told_of_is_seen_after_catching_up(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        one, two, three = await stage.begin(1, 2, 3)
        owner = await stage.own()
        sends = [owner.publish("kept", one), owner.publish("dropped", two), owner.publish("later", three)]
        await confirmed([*sends, owner.publish("plain")])
        owner.process.script.hold("watch")
        await decide(stage.outside, one, COMMITTED)
        await decide(stage.outside, two, ABORTED)
        await settle()
        assert owner.bound == 0
        await asyncio.wait_for(owner.buffer.catch_up(), 60)
        assert await owner.texts() == ["kept"], "what lies behind the open one waits"
        await decide(stage.outside, three, COMMITTED)
        await asyncio.wait_for(owner.buffer.catch_up(), 60)
        assert await owner.texts() == ["kept", "later", "plain"]
        await owner.close()

    play(scenario, lacks)


def test_nobody_is_asked_where_nothing_is_open_and_a_store_that_does_not_say_is_an_error() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        owner.process.script.fail("get", Unavailable("away"), prefix=paths.header_key(one))
        await confirmed([owner.publish("plain")])
        await owner.buffer.catch_up()
        await confirmed([owner.publish("held", one)])
        with pytest.raises(SegmentUnavailable, match=f"{one} is open cannot be learned: away"):
            await owner.buffer.catch_up()
        assert await owner.texts() == ["plain"]
        await owner.close()

    play(scenario)


def test_an_owner_that_ends_keeps_nobody_waiting() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await confirmed([owner.publish("held", one)])
        gate = owner.process.script.hold("get", prefix=paths.header_key(one))
        catching_up = owner.process.start(owner.buffer.catch_up())
        await gate.arrived()
        await owner.close()
        gate.release()
        with pytest.raises(SegmentUnavailable):
            await asyncio.wait_for(catching_up, 60)

    play(scenario)
