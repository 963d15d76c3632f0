"""Streams of gRPC: who sends on one is never left waiting, however it ends."""

from __future__ import annotations

import asyncio

import pytest

from metastore.clock import ManualClock
from metastore.dialling import Dialler, Errors, Method, Security, ended_by_close, send
from support.ports import LOOPBACK, free_port

TALK = Method("/a.Service/Talk", bytes, bytes, is_two_way=True)


class Closed(Exception):
    """What the dialler's owner calls its end."""


def dialler() -> Dialler:
    return Dialler(Security(), ManualClock(), Errors(Closed, ValueError))


@pytest.mark.parametrize("ended_by", ["its reader", "itself"])
@pytest.mark.parametrize("waits", [True, False])
def test_who_waits_for_a_connection_hears_that_the_stream_is_over(ended_by: str, waits: bool) -> None:
    """Nobody listens. A stream is given up by its reader when answers are overdue, connected or not."""

    async def scenario() -> None:
        dialling = dialler()
        call = dialling.stream(f"{LOOPBACK}:{free_port()}", TALK, waits=waits)
        reading = asyncio.ensure_future(call.read())
        sending = asyncio.ensure_future(send(call, b""))
        await asyncio.sleep(0)
        assert not sending.done()
        if ended_by == "itself":
            call.cancel()
        reading.cancel()
        assert await sending is False
        await asyncio.wait({reading})
        await dialling.close()

    asyncio.run(scenario())


def test_who_waits_for_an_answer_hears_of_the_end() -> None:
    """A cancellation it is only for those who were cancelled."""

    async def scenario() -> None:
        dialling = dialler()
        address = f"{LOOPBACK}:{free_port()}"

        async def ask() -> None:
            with ended_by_close(Closed):
                await dialling.unary(address, TALK, b"", 60, waits=True)

        cut_off, cancelled = asyncio.ensure_future(ask()), asyncio.ensure_future(ask())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait({cancelled})
        assert cancelled.cancelled()
        await dialling.close()
        with pytest.raises(Closed):
            await cut_off
        with pytest.raises(Closed):
            dialling.answers(address, TALK, b"")
        with pytest.raises(Closed):
            await dialling.become_ready(address, 1)

    asyncio.run(scenario())


@pytest.mark.parametrize("attempts_again", [True, False])
def test_a_connection_that_is_refused_is_not_there(attempts_again: bool) -> None:
    async def scenario() -> None:
        dialling = dialler()
        timeout_s = 0.2 if attempts_again else 60
        assert not await dialling.become_ready(f"{LOOPBACK}:{free_port()}", timeout_s, attempts_again=attempts_again)
        await dialling.close()

    asyncio.run(scenario())
