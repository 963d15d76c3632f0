"""Where topics are measured: a metastore process, broker processes on it, and a client in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from controller.client import Client, TopicState, connect
from loadtest.bench import txn_lines
from loadtest.bench.bench import Bench
from loadtest.bench.model import BenchError
from loadtest.bench.servers import Program, Server, tidemark
from txn.model.errors import TxnError

T = TypeVar("T")

SIDE = "tidemark"
STILL = ("--no-scalable-topic-auto-scale-enabled",)
"""Topics have as many segments as they were told to have."""
PATIENCE_S = 30.0
"""How long anything may take that is waited for outside of what is timed."""


@dataclass(frozen=True)
class Stage:
    """The processes."""

    store: Server
    brokers: tuple[Server, ...]

    @property
    def url(self) -> str:
        """Of all brokers, for clients."""
        return "tidemark://" + ",".join(each.address for each in self.brokers)


@contextmanager
def staged(bench: Bench, name: str, flags: Sequence[str] = STILL, brokers: int = 1) -> Iterator[Stage]:
    """Brokers that share their folder, so that they take segments over from each other."""
    with ExitStack() as stack:
        folders = [stack.enter_context(bench.fresh_folder(f"{name}-{what}")) for what in ("store", "broker")]
        store = stack.enter_context(Server(tidemark(), folders[0], bench.generator))
        program = broker(store.address, flags)
        serving = [stack.enter_context(Server(program, folders[1], bench.generator)) for _ in range(brokers)]
        yield Stage(store, tuple(serving))


def broker(store_address: str, flags: Sequence[str]) -> Program:
    """Our broker, with these flags."""
    plain = txn_lines.broker(store_address)

    def command(address: str, metrics_address: str, folder: Path) -> list[str]:
        return [*plain.command(address, metrics_address, folder), *flags]

    return Program(plain.side, command, plain.probe)


class Player:
    """An event loop of its own, which stands still while nothing is measured. `closing` it ends what is open."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work returns; what a broker refuses is a line that cannot be measured."""
        try:
            return self._runner.run(work)
        except (TxnError, TimeoutError) as error:
            raise BenchError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Ends the loop."""
        try:
            self.run(self._leave())
        finally:
            self._runner.close()

    async def _leave(self) -> None:
        """Closes what is open."""


class Application(Player):
    """A client of brokers."""

    def __init__(self, url: str) -> None:
        super().__init__()
        try:
            self.client: Client = self.run(connect(url))
        except BaseException:
            self._runner.close()
            raise

    async def _leave(self) -> None:
        await self.client.close()

    async def led(self, topic: str) -> TopicState:
        """A topic, as soon as somebody leads it, and all its segments are somebody's."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                state = await self.client.topics.describe(topic)
                if state.leader is not None and state.leader.address and len(state.owners) == len(state.layout.active):
                    return state
                await asyncio.sleep(0)  # the call itself takes its time


@contextmanager
def application(url: str) -> Iterator[Application]:
    """A client for a block."""
    with closing(Application(url)) as open_application:
        yield open_application
