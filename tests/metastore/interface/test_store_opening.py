"""Opening a store for somebody who waits."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from metastore.interface import Unavailable, open_promptly
from support.ports import LOOPBACK, free_port

FOREVER = "24h"
"""Whoever waited for the end of it would be stopped as a test that hangs."""


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of somebody who listens and never answers."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        yield f"{LOOPBACK}:{listener.getsockname()[1]}"


def test_an_opening_can_be_cancelled(silent: str) -> None:
    async def scenario() -> None:
        opening = asyncio.ensure_future(open_promptly(f"oxia://{silent}?request_timeout={FOREVER}"))
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait({opening})
        assert opening.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(Unavailable, match="nobody listens"):
            await open_promptly(f"oxia://{LOOPBACK}:{free_port()}")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
