"""Streams of gRPC: who sends on one is never left waiting, however it ends."""

from __future__ import annotations

import asyncio

import pytest

from metastore.clock import ManualClock
from metastore.providers.wire.channels import Channels, send
from metastore.providers.wire.protocol import WRITE_STREAM
from metastore.providers.wire.security import Security, TokenSource
from support.ports import LOOPBACK, free_port


@pytest.mark.parametrize("ended_by", ["its reader", "itself"])
def test_who_waits_for_a_connection_hears_that_the_stream_is_over(ended_by: str) -> None:
    """Nobody listens. A stream is given up by its reader when answers are overdue, connected or not."""

    async def scenario() -> None:
        channels = Channels(Security(), TokenSource(None, ManualClock()))
        call = channels.stream(f"{LOOPBACK}:{free_port()}", WRITE_STREAM)
        reading = asyncio.ensure_future(call.read())
        sending = asyncio.ensure_future(send(call, b""))
        await asyncio.sleep(0)
        assert not sending.done()
        if ended_by == "itself":
            call.cancel()
        reading.cancel()
        assert await sending is False
        await asyncio.wait({reading})
        await channels.close()

    asyncio.run(scenario())
