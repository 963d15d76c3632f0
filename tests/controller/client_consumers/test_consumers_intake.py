"""The intake: sources take turns, order stays within each, and whoever receives is told the end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import pytest

from controller.client.consumers.intake import Intake
from controller.client.errors import ClientClosed, InvalidRequest
from support.virtual_time import run_virtually


class Shelf:
    def __init__(self, *messages: str) -> None:
        self.messages = deque(messages)

    def take(self, messages_max: int) -> list[str]:
        return [self.messages.popleft() for _ in range(min(messages_max, len(self.messages)))]


def run(scenario: Callable[[Intake[str]], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(Intake())

    run_virtually(whole())


def test_sources_take_turns_and_keep_their_order() -> None:
    async def scenario(intake: Intake[str]) -> None:
        intake.announce(Shelf("a1", "a2", "a3"))
        intake.announce(Shelf("b1"))
        assert [await intake.receive() for _ in range(4)] == ["a1", "b1", "a2", "a3"]
        with pytest.raises(TimeoutError):
            await intake.receive(10)

    run(scenario)


def test_who_waits_is_woken_by_what_is_announced() -> None:
    async def scenario(intake: Intake[str]) -> None:
        waiting = asyncio.create_task(intake.receive())
        await asyncio.sleep(1)
        shelf = Shelf()
        intake.announce(shelf)
        await asyncio.sleep(1)
        assert not waiting.done(), "there was nothing after all"
        shelf.messages.append("a")
        intake.announce(shelf)
        assert await waiting == "a"

    run(scenario)


def test_many_are_as_many_as_there_are() -> None:
    async def scenario(intake: Intake[str]) -> None:
        intake.announce(Shelf("a", "b", "c"))
        assert await intake.receive_many(2) == ["a", "b"]
        assert await intake.receive_many(2) == ["c"]
        with pytest.raises(InvalidRequest):
            await intake.receive_many(0)

    run(scenario)


def test_of_many_each_source_has_its_part_and_none_is_left_where_others_have_less() -> None:
    async def scenario(intake: Intake[str]) -> None:
        intake.announce(Shelf("a1", "a2", "a3", "a4", "a5", "a6"))
        intake.announce(Shelf("b1", "b2", "b3", "b4"))
        intake.announce(Shelf("c1"))
        assert await intake.receive_many(6) == ["a1", "a2", "b1", "b2", "c1", "a3"]
        assert await intake.receive_many(100) == ["b3", "b4", "a4", "a5", "a6"]

    run(scenario)


def test_what_is_withdrawn_is_not_taken_from() -> None:
    async def scenario(intake: Intake[str]) -> None:
        gone, there = Shelf("gone"), Shelf("there")
        intake.announce(gone)
        intake.announce(there)
        intake.withdraw(gone)
        assert await intake.receive() == "there"
        assert intake.take(1) == []

    run(scenario)


def test_while_it_is_paused_nothing_is_handed_out() -> None:
    async def scenario(intake: Intake[str]) -> None:
        intake.announce(Shelf("a"))
        intake.pause()
        with pytest.raises(TimeoutError):
            await intake.receive(10)
        intake.resume()
        assert await intake.receive() == "a"

    run(scenario)


def test_everybody_who_waits_is_told_the_end_and_the_first_reason() -> None:
    async def scenario(intake: Intake[str]) -> None:
        waiting = [asyncio.create_task(intake.receive()) for _ in range(3)]
        await asyncio.sleep(1)
        intake.end(ClientClosed("first"))
        intake.end(ClientClosed("second"))
        for each in waiting:
            with pytest.raises(ClientClosed, match="first"):
                await each

    run(scenario)


def test_v15_who_receives_several_gets_as_many_as_are_there_in_their_order() -> None:
    async def scenario(intake: Intake[str]) -> None:
        intake.announce(Shelf(*"abcde"))
        assert await intake.receive_many(3) == ["a", "b", "c"]
        assert await intake.receive_many(3, 10) == ["d", "e"], "those that are there, at once"
        with pytest.raises(TimeoutError):
            await intake.receive_many(3, 10)

    run(scenario)


def test_v15_who_gives_up_waiting_swallows_nothing() -> None:
    async def scenario(intake: Intake[str]) -> None:
        gone, there = (asyncio.create_task(intake.receive()) for _ in range(2))
        await asyncio.sleep(1)
        gone.cancel()
        intake.announce(Shelf("a"))
        assert await there == "a"
        assert gone.cancelled()

    run(scenario)


def test_v15_who_waits_first_is_served_first() -> None:
    async def scenario(intake: Intake[str]) -> None:
        waiting = [asyncio.create_task(intake.receive()) for _ in range(3)]
        await asyncio.sleep(1)
        intake.announce(Shelf("a", "b", "c"))
        assert [await each for each in waiting] == ["a", "b", "c"]

    run(scenario)
