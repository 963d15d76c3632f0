"""A shard of the store as its event loop sees it: what blocks is awaited."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from metastore.engine.followers import SequenceFollowers
from metastore.engine.operations import Get, Transaction, WriteBatch, WriteResult
from metastore.engine.read import Found
from metastore.engine.rounds import Done
from metastore.engine.shard import Shard
from metastore.providers.local.threads import Driver, Gathering, LoopInbox, ReaderPool
from metastore.watch.hub import WatchHub

T = TypeVar("T")


class OpenShard:
    """One shard; its methods are for the loop, unless they say otherwise."""

    def __init__(self, shard_id: int, shard: Shard, inbox: LoopInbox, driver: Driver, readers: ReaderPool) -> None:
        self.shard_id = shard_id
        self.shard = shard
        self.hub = WatchHub(shard)
        self.sequences = SequenceFollowers()
        self._inbox = inbox
        self._readers = readers
        shard.rounds.schedule = Gathering(driver, inbox.loop).schedule
        shard.rounds.on_round.append(self.sequences.on_round)

    async def write(self, batch: WriteBatch) -> WriteResult:
        """Writes, and returns when it is durable."""
        return await self._answer(partial(self.shard.submit_write, batch))  # type: ignore[no-any-return]

    async def transact(self, transaction: Transaction) -> WriteResult:
        return await self._answer(partial(self.shard.submit_transact, transaction))  # type: ignore[no-any-return]

    async def create_session(self, timeout_ms: int, identity: bytes) -> int:
        return await self._answer(  # type: ignore[no-any-return]
            partial(self.shard.submit_create_session, timeout_ms, identity)
        )

    async def close_session(self, session_id: int) -> None:
        await self._answer(partial(self.shard.submit_close_session, session_id))

    async def get(self, request: Get) -> Found | None:
        """A point read: on the spot where nobody holds the shard's lock, which writers do while they stage a round."""
        if self.shard.store.lock.locked():
            return await self.in_thread(partial(self.shard.get, request))
        return self.shard.get(request)

    async def in_thread(self, read: Callable[[], T]) -> T:
        """Something that may take a while, on a thread for readers."""
        return await self._readers.run(read)

    async def _answer(self, submit: Callable[[Done], None]) -> Any:
        answer = self._inbox.loop.create_future()
        submit(partial(self._inbox.post, _settle, answer))
        return await answer


def _settle(answer: Any, result: Any, error: BaseException | None) -> None:
    if answer.done():
        return  # cancelled meanwhile
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
