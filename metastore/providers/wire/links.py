"""The streams that carry watches: one for each server, with all its watches on it, made anew when it breaks."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence

import grpc.aio
from google.protobuf.message import DecodeError

from metastore.dialling import send
from metastore.interface.errors import StoreClosed, StoreError, StoreFailed, Unavailable
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.wire.caller import CONNECT_ATTEMPT_S, Caller
from metastore.providers.wire.channels import CLOSED, StreamCall
from metastore.providers.wire.failures import Failure, broken_protocol, connection_ended, failure_of
from metastore.providers.wire.feed import Feed
from metastore.providers.wire.patience import Backoff
from metastore.providers.wire.protocol import WATCH

OnLost = Callable[[Sequence[Feed], Failure], None]
"""Takes the feeds that a stream carries no more, for a reason that may pass."""


class Link:
    """One stream. What it has to say goes out in order; what comes is handed to the feeds."""

    def __init__(self, address: str, call: StreamCall, backoff: Backoff, on_lost: OnLost) -> None:
        self.address = address
        self._backoff = backoff
        self.feeds: dict[int, Feed] = {}
        self._by_shard: dict[int, dict[int, Feed]] = defaultdict(dict)
        self._call = call
        self._on_lost = on_lost
        self._outbox: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._last_id = 0

    def add(self, feed: Feed) -> None:
        """Carries a feed from now on."""
        self._last_id += 1
        self._post(feed.create_request(self._last_id))
        feed.grant = self._grant
        self.feeds[self._last_id] = self._by_shard[feed.shard_id][self._last_id] = feed

    def remove(self, feed: Feed) -> None:
        """Carries it no more."""
        if self._forget(feed):
            self._post(pb.WatchRequest(cancel=pb.CancelWatch(watch_id=feed.watch_id)).SerializeToString())

    async def run(self) -> Failure:
        """Returns why it has ended."""
        writer = asyncio.create_task(self._write(), name=f"watch requests to {self.address}")
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                assert isinstance(message, bytes)
                self._backoff.reset()
                self._hand_out(pb.WatchResponse.FromString(message))
        except grpc.aio.AioRpcError as failed:
            return failure_of(failed)
        except (DecodeError, StoreFailed) as error:
            return broken_protocol(self.address, f"sent news that cannot be understood: {error}")
        finally:
            writer.cancel()
            self._call.cancel()
        return connection_ended(self.address)

    def _hand_out(self, message: pb.WatchResponse) -> None:
        """Gives everybody what is theirs."""
        for news in message.news:
            feed = self.feeds.get(news.watch_id)
            if feed is None:
                continue  # it was cancelled, and this was on its way
            failure = feed.arrive(news)
            if news.HasField("ended"):
                self._forget(feed)
            if failure is not None:
                self._on_lost([feed], failure)
        for progress in message.progress:
            behind = set(progress.behind)
            for watch_id, feed in self._by_shard[progress.shard].items():
                if watch_id not in behind:
                    feed.progress(progress.resume_offset)

    def _forget(self, feed: Feed) -> bool:
        feed.grant = None
        self._by_shard[feed.shard_id].pop(feed.watch_id, None)
        return self.feeds.pop(feed.watch_id, None) is not None

    def _grant(self, watch_id: int, events: int) -> None:
        self._post(pb.WatchRequest(grant=pb.GrantCredit(watch_id=watch_id, events=events)).SerializeToString())

    def _post(self, request: bytes) -> None:
        self._outbox.append(request)
        self._wake.set()

    async def _write(self) -> None:
        while True:
            while self._outbox:
                if not await send(self._call, self._outbox.popleft()):
                    return  # the stream has ended, and who reads it learns why
            self._wake.clear()
            await self._wake.wait()


class Links:
    """All streams of one store object. A feed is on the stream of its shard's leader, or on its way there."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._links: dict[str, Link] = {}
        self._feeds: set[Feed] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._backoff = caller.backoff()
        self._is_closed = False

    def attach(self, feeds: Iterable[Feed]) -> None:
        """Carries these feeds until they are detached, over as many streams as it takes."""
        by_shard: dict[int, list[Feed]] = defaultdict(list)
        for feed in feeds:
            self._feeds.add(feed)
            by_shard[feed.shard_id].append(feed)
        for shard_id, group in by_shard.items():
            if self._is_closed:
                _fail(group, StoreClosed(CLOSED))
            else:
                self._start(self._find_way(shard_id, group), f"way to shard {shard_id}")

    def detach(self, feeds: Iterable[Feed]) -> None:
        """These are not wanted any more."""
        for feed in feeds:
            self._feeds.discard(feed)
            for link in self._links.values():
                if link.feeds.get(feed.watch_id) is feed:
                    link.remove(feed)

    async def close(self) -> None:
        """Ends all streams."""
        self._is_closed = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        _fail(self._feeds, StoreClosed(CLOSED))
        self._feeds.clear()

    def _start(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()

    async def _find_way(self, shard_id: int, feeds: Sequence[Feed]) -> None:
        """Puts feeds on the stream of the leader of their shard, when there is one: a watch waits for its server."""
        while True:
            try:
                link = self._link_to(await self._caller.reach(shard_id, CONNECT_ATTEMPT_S))
                break
            except Unavailable:
                continue  # it was waited for, for CONNECT_ATTEMPT_S; and it is waited for longer
            except StoreError as error:
                _fail(feeds, error)
                return
        for feed in feeds:
            if feed in self._feeds:
                link.add(feed)

    def _link_to(self, leader: str) -> Link:
        link = self._links.get(leader)
        if link is None:
            call = self._caller.channels.stream(leader, WATCH)
            link = self._links[leader] = Link(leader, call, self._backoff, self._recover)
            self._start(self._keep(link), f"watches at {leader}")
        return link

    async def _keep(self, link: Link) -> None:
        failure = await link.run()
        if self._links.get(link.address) is link:
            del self._links[link.address]
        feeds = list(link.feeds.values())
        link.feeds.clear()
        for shard_id in {feed.shard_id for feed in feeds}:
            self._caller.topology.correct(shard_id, failure)
        if failure.is_passing:
            self._recover(feeds, failure)
        else:
            for feed in feeds:
                feed.fail(failure.refusal(f"watch on shard {feed.shard_id} at {link.address}"))

    def _recover(self, feeds: Sequence[Feed], failure: Failure) -> None:
        """Looks for another stream for feeds that have lost theirs, after a pause."""
        for feed in feeds:
            feed.tear()
        waiting = [feed for feed in feeds if feed in self._feeds and not feed.is_torn]
        if waiting:
            self._start(self._attach_later(waiting), "watches between two streams")

    async def _attach_later(self, feeds: Sequence[Feed]) -> None:
        await asyncio.sleep(self._backoff.next_s())
        self.attach([feed for feed in feeds if feed in self._feeds])


def _fail(feeds: Iterable[Feed], error: StoreError) -> None:
    for feed in feeds:
        feed.fail(error)
