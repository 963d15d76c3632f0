"""The change log as it is read: entries by their numbers, and the news that there are more of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from metastore.interface import StoreClosed, StoreError, TokenExpired
from metastore.providers.zookeeper.changes import LogEntry
from metastore.providers.zookeeper.connection import Connection, teller
from metastore.providers.zookeeper.head import Head
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.limits import LOG_CACHE_BYTES, LOG_CACHE_ENTRIES


class Tail:
    """The log of one store, for all who read it in this process.

    While anybody waits for news, one task asks ZooKeeper for the head, and to be told when it changes, and reads what
    is new: so a thousand watches that keep up cost ZooKeeper as much as one.
    """

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        self._cache: OrderedDict[int, tuple[LogEntry, int]] = OrderedDict()
        self._cache_bytes = 0
        self.known_next = 0
        """The head's next write, as far as is known here."""
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._follower: asyncio.Task[None] | None = None

    async def head(self) -> Head:
        """The head as it is now."""
        node = await self._connection.node(self._layout.head)
        assert node is not None, "a store has a head"
        return Head.decode(node.data)

    # -- entries

    async def entries(self, first: int, end: int) -> list[LogEntry]:
        """The entries from `first` to before `end`, which must have been written; TokenExpired if some are gone."""
        found = {number: self._cache[number][0] for number in range(first, end) if number in self._cache}
        missing = [number for number in range(first, end) if number not in found]
        nodes = await self._connection.nodes([self._layout.log_entry(number) for number in missing])
        for number, node in zip(missing, nodes, strict=True):
            if node is None:
                oldest = (await self.head()).oldest
                raise TokenExpired(
                    f"the change log begins at write {oldest}, and write {number} is needed: begin with a snapshot",
                    oldest,
                )
            found[number] = LogEntry.decode(node.data)
            self._remember(found[number], len(node.data))
        return [found[number] for number in range(first, end)]

    def _remember(self, entry: LogEntry, size: int) -> None:
        if entry.number not in self._cache:
            self._cache[entry.number] = (entry, size)
            self._cache_bytes += size
        while len(self._cache) > LOG_CACHE_ENTRIES or self._cache_bytes > LOG_CACHE_BYTES:
            _, (_, forgotten) = self._cache.popitem(last=False)
            self._cache_bytes -= forgotten

    # -- news

    async def wait_beyond(self, position: int) -> None:
        """Waits until there is an entry with this number."""
        if position < self.known_next:
            return
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[news] = position
        if self._follower is None:
            self._follower = asyncio.create_task(self._follow())
        try:
            await news
        finally:
            del self._waiting[news]

    async def close(self) -> None:
        """Whoever waits is told that the store is closed."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.wait([self._follower])
        self._fail(StoreClosed("the store was closed while a watch waited: open another one"))

    async def _follow(self) -> None:
        try:
            while any(not news.done() for news in self._waiting):
                changed = asyncio.Event()
                node = await self._connection.node(self._layout.head, watch=teller(changed))
                assert node is not None, "a store has a head"
                head = Head.decode(node.data)
                if not await self._read_news(head):
                    continue
                self.known_next = head.next
                if not self._wake():
                    await changed.wait()
        except StoreError as error:
            self._fail(error)
        finally:
            self._follower = None

    async def _read_news(self, head: Head) -> bool:
        """Reads ahead of those who wait; False if the log was trimmed meanwhile."""
        first = min([*self._waiting.values(), head.next])
        try:
            await self.entries(max(first, head.oldest, head.next - LOG_CACHE_ENTRIES), head.next)
        except TokenExpired:
            return False
        return True

    def _wake(self) -> bool:
        """Tells those who wait for what there is by now; whether there were any."""
        told = [news for news, position in self._waiting.items() if position < self.known_next and not news.done()]
        for news in told:
            news.set_result(None)
        return bool(told)

    def _fail(self, error: StoreError) -> None:
        for news in self._waiting:
            if not news.done():
                news.set_exception(error)
