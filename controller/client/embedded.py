"""A client with a broker in the same process: for one program that needs no other, and for trying things out."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.client.client import Client, connected
from controller.client.settings import Settings
from metastore.coordination import Pace

if TYPE_CHECKING:
    from controller.broker import Broker

ANY_PORT = "127.0.0.1:0"


async def embedded(store: str, *, data_dir: str | Path | None = None, pace: Pace | None = None) -> Client:
    """A client of a broker in this process, on the metadata store at this URL; the broker ends with the client.

    Entries are in the store as well, or as local logs in `data_dir`. Other brokers may share the store.
    """
    from controller.broker import Broker, BrokerConfig  # whoever goes to brokers elsewhere has no need of it

    pace = pace or Pace()
    config = BrokerConfig(store=store, listen=ANY_PORT, metrics_port=None, log="metastore")
    if data_dir is not None:
        config = BrokerConfig(store=store, listen=ANY_PORT, metrics_port=None, data_dir=Path(data_dir))
    stack = AsyncExitStack()
    try:
        hosted = _Hosted(Broker(config, pace=pace))
        stack.push_async_callback(hosted.stop)
        address = await hosted.address()
        return await connected(Settings((address,)), pace, stack)
    except BaseException:
        await stack.aclose()
        raise


class _Hosted:
    """A broker in a task of its own, so that whoever opened the client need not be who closes it."""

    def __init__(self, broker: Broker) -> None:
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self._run(broker), name="broker")

    async def address(self) -> str:
        """Where it serves, once it does."""
        first: list[asyncio.Future[Any]] = [self._address, self._task]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task
        return self._address.result()

    async def stop(self) -> None:
        """Ends it; raises what has ended it before."""
        self._stopping.set()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def _run(self, broker: Broker) -> None:
        async with broker:
            self._address.set_result(broker.address)
            await self._stopping.wait()
