"""The parts in their order: the directory, the metadata service, the broker on it, the admin service beside that."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from controller.broker import Broker
from controller.serving.beside import admin_of
from controller.standalone.config import StandaloneConfig, url_of
from controller.standalone.locking import DirectoryLock
from controller.standalone.metadata import MetadataService
from metastore.coordination import Pace
from metastore.faults import NO_FAULTS, Faults


class Standalone:
    """`async with Standalone(config) as one`: clients connect to `one.url`. All of it ends with the block.

    If the metadata service stays away for so long that the broker gives up, the block is cancelled, the error raised.
    """

    def __init__(
        self, config: StandaloneConfig | None = None, *, pace: Pace | None = None, faults: Faults = NO_FAULTS
    ) -> None:
        self.config = (config or StandaloneConfig()).check()
        self._pace = pace or Pace()
        self._faults = faults
        self._stack = AsyncExitStack()
        self._metadata: MetadataService | None = None
        self._broker: Broker | None = None
        self.admin_url: str | None = None
        """What to put before the paths of admin requests; None: there is no admin service."""

    @property
    def broker(self) -> Broker:
        """The broker; there is one within the block."""
        assert self._broker is not None, "a standalone has a broker once it is entered"
        return self._broker

    @property
    def metadata(self) -> MetadataService:
        """The metadata service; there is one within the block."""
        assert self._metadata is not None, "a standalone has a metadata service once it is entered"
        return self._metadata

    @property
    def url(self) -> str:
        """For `connect`. Whoever has to prove something adds that."""
        return f"tidemark://{self.broker.address}"

    @property
    def store_url(self) -> str:
        """For `open_store`, `tidemark client --store`, and other brokers of this machine."""
        return url_of(self.metadata.address)

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException as error:
            await self._stack.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _start(self) -> None:
        lock = DirectoryLock(self.config.data_dir, self._pace)
        await lock.take()
        self._stack.callback(lock.close)
        self._metadata = MetadataService(self.config, lock.inherited, self._pace)
        self._stack.push_async_callback(self._metadata.stop)
        await self._metadata.start()
        settings = self.config.broker_on(self.store_url)
        self._broker = await self._stack.enter_async_context(Broker(settings, pace=self._pace, faults=self._faults))
        admin = await self._stack.enter_async_context(admin_of(self._broker))
        self.admin_url = None if admin is None else admin.url
