"""Watch: a stream on which a client opens, feeds and ends any number of watches.

All that a stream does it does in its turns (see `turns`), in one thread. What comes from elsewhere, a request, a feed
with news, a shard that stopped, the end of the call, is noted, and a turn is asked for. In a turn the stream first does
what is noted, then lets the watches in its line tell their news until one response is full.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial

import grpc

from metastore.pb import tidemark_pb2
from metastore.server.calls import AHEAD_MESSAGES_MAX, Report
from metastore.server.errors import OWN_DOMAIN, RpcError, invalid, rpc_error, too_many_watches, unavailable
from metastore.server.host import Host, ShardHost
from metastore.server.streams import OpenCall
from metastore.server.tidemark import news
from metastore.server.tidemark.messages import decode
from metastore.server.tidemark.opening import added_credit, shard_of, spec_of
from metastore.server.tidemark.progress import ProgressMarks
from metastore.server.tidemark.watches import Line, StreamWatch
from metastore.server.transport import Call
from metastore.watch.errors import OffsetTrimmed

WATCHES_PER_STREAM_MAX = 20_000
REQUESTS_WAITING_MAX = 256
"""Requests of a stream that wait for its turn; then the server stops reading the stream."""
TAKES_PER_TURN_MAX = 100
"""How often watches are asked for news in one turn of their stream."""


class WatchCall(OpenCall):
    """One stream and its watches."""

    def __init__(self, call: Call, host: Host, report: Report) -> None:
        super().__init__(call, host, report)
        self._lock = threading.Lock()
        self._requests: deque[Callable[[], None]] = deque()
        self._is_paused = False
        self._stopped: deque[tuple[ShardHost, BaseException]] = deque()
        self._watches: dict[int, StreamWatch] = {}
        self._line = Line()
        self._marks = ProgressMarks(self._line)
        self._outbox: deque[bytes] = deque()
        """What one take or one request has brought and the responses had no room for yet."""
        self._is_finishing = False

    # -- what is noted, by any thread

    def handle(self, message: bytes) -> None:
        request = decode(tidemark_pb2.WatchRequest, message)
        which = request.WhichOneof("request")
        if which == "create":
            self._note(partial(self._create, request.create))
        elif which == "grant":
            self._note(partial(self._grant, request.grant))
        elif which == "cancel":
            self._note(partial(self._cancel, request.cancel))
        else:
            raise invalid("a request of a watch stream must be a create, a grant or a cancel")

    def _note(self, action: Callable[[], None]) -> None:
        with self._lock:
            self._requests.append(action)
            if len(self._requests) >= REQUESTS_WAITING_MAX:
                self._is_paused = True
                self.call.pause_receiving()
        self.ask()

    def on_half_close(self) -> None:
        self._note(self._begin_to_finish)

    def on_drained(self) -> None:
        self.ask()

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self.ask()  # its watches end in the turn: it may be long until the call is over

    def on_over(self) -> None:
        self.ask()

    def on_shard_stopped(self, host: ShardHost, failure: BaseException) -> None:
        self._stopped.append((host, failure))
        self.ask()

    def tick(self, now_s: float) -> None:
        """The housekeeper's clock: tells progress if it is time to."""
        if self._marks.tick(now_s):
            self.ask()

    def ask(self) -> None:
        """Asks for a turn."""
        self.host.turns.ask(self)

    def _wake(self, watch: StreamWatch) -> None:
        self._line.join(watch)
        self.ask()

    # -- a turn

    def take_turn(self) -> bool:
        """Does what is noted, and sends a response if there is room for one; whether there is more to do at once."""
        try:
            return self._take_turn()
        except Exception as error:
            self._release()
            self.fail(error)
            return False

    def _take_turn(self) -> bool:
        if self.call.is_finished:
            self._release()
            return False
        if self.call.unsent_count >= AHEAD_MESSAGES_MAX:
            return False
        while self._stopped:
            self._end_watches_of(*self._stopped.popleft())
        self._answer_requests()
        has_more = self._send_response()
        if self._is_finishing and not has_more:
            self._release()
            self.call.finish()
        return has_more

    def _answer_requests(self) -> None:
        """Does the requests that are there; how many there can be is bounded."""
        for _ in range(len(self._requests)):
            self._requests.popleft()()
        with self._lock:
            if not self._is_paused:
                return
            self._is_paused = False
        self.call.resume_receiving()

    def _send_response(self) -> bool:
        """One response of what there is to tell, if there is any; whether there may be more."""
        told: list[bytes] = []
        size = 0
        takes = TAKES_PER_TURN_MAX
        while True:
            if self._outbox:
                if told and size + len(self._outbox[0]) > news.NEWS_BYTES:
                    break
                told.append(self._outbox.popleft())
                size += len(told[-1])
            elif takes and self._line and not self._is_finishing:
                takes -= 1
                self._take_next()
            else:
                break
        marks = self._marks.due()
        if told or marks:
            self.call.send(news.response(told, marks))
        return bool(self._outbox or self._requests or (self._line and not self._is_finishing))

    def _take_next(self) -> None:
        """Lets the next watch in the line tell something."""
        watch = self._line.next()
        if watch is None:
            return
        if watch.feed is None:
            self._line.forget(watch)  # it was woken when it was over already
            return
        if watch.credit <= 0:
            return
        try:
            batches = watch.take()
        except Exception as error:
            self._end(watch, error)
            return
        if not batches:
            self._line.note_caught_up(watch)
            return
        for batch in batches:
            self._outbox.extend(news.encode(watch.watch_id, batch))
        self._line.join(watch)

    # -- requests

    def _create(self, request: tidemark_pb2.CreateWatch) -> None:
        watch_id = request.watch_id
        try:
            self._check_new(watch_id)
            shard = shard_of(request, self.host)
            watch = StreamWatch(watch_id, shard, added_credit(0, request.credit))
            watch.feed = shard.watches.open(spec_of(request), partial(self._wake, watch))
        except Exception as error:
            self._outbox.append(self._ended(watch_id, error))
            return
        self._watches[watch_id] = watch
        self._marks.follow(shard)
        has_snapshot = request.beginning == tidemark_pb2.SNAPSHOT
        self._outbox.append(news.created(watch_id, None if has_snapshot else watch.feed.next_offset))
        self._line.join(watch)

    def _check_new(self, watch_id: int) -> None:
        if watch_id in self._watches:
            message = f"the stream has a watch {watch_id} already, and that goes on"
            raise RpcError(grpc.StatusCode.ALREADY_EXISTS, message, "WATCH_EXISTS", OWN_DOMAIN)
        if len(self._watches) >= WATCHES_PER_STREAM_MAX:
            raise too_many_watches(f"the stream has {WATCHES_PER_STREAM_MAX} watches already (WATCHES_PER_STREAM_MAX)")

    def _grant(self, request: tidemark_pb2.GrantCredit) -> None:
        watch = self._watches.get(request.watch_id)
        if watch is None:
            return
        try:
            watch.credit = added_credit(watch.credit, request.events)
        except RpcError as error:
            self._end(watch, error)
        else:
            self._line.join(watch)

    def _cancel(self, request: tidemark_pb2.CancelWatch) -> None:
        watch = self._watches.get(request.watch_id)
        if watch is not None:
            self._end(watch, None)

    def _begin_to_finish(self) -> None:
        self._is_finishing = True

    # -- ends

    def _end_watches_of(self, host: ShardHost, failure: BaseException) -> None:
        for watch in [each for each in self._watches.values() if each.host is host]:
            self._end(watch, unavailable(f"the shard stopped: {failure}"))

    def _end(self, watch: StreamWatch, error: BaseException | None) -> None:
        self._forget(watch)
        self._outbox.append(self._ended(watch.watch_id, error))

    def _forget(self, watch: StreamWatch) -> None:
        watch.close()
        self._line.forget(watch)
        self._marks.unfollow(watch.host)
        del self._watches[watch.watch_id]

    def _ended(self, watch_id: int, error: BaseException | None) -> bytes:
        known = None if error is None else rpc_error(error)
        if error is not None and known is None:
            self.report(self.call.method, error)
            known = RpcError(grpc.StatusCode.INTERNAL, "internal error")
        oldest = error.oldest if isinstance(error, OffsetTrimmed) else None
        return news.ended(watch_id, known, oldest)

    def _release(self) -> None:
        """The call is over, or nothing more will be told."""
        self._requests.clear()
        for watch in list(self._watches.values()):
            self._forget(watch)
