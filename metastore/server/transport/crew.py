"""The threads that wait for events: one leads, the others follow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from metastore.server.transport.core import Event

OnError = Callable[[str, BaseException], None]
Action = Callable[[], None]

STUCK_AFTER_S = 0.01
SLOW_ACTION_S = 0.001
ACTION_DELAY_S_MAX = 0.002  # enough for some fifty messages, and little beside an fsync or two


class Crew:
    """Leader and followers.

    The leader polls and runs each event's callback itself: no message changes threads, and threads do not
    fight for the interpreter, which doubles the cost of a message. When a callback blocks, this is noticed
    after one or two times `STUCK_AFTER_S`: a follower takes the lead, and the old leader follows when it is
    back.

    What is known to block, an fsync, is deferred: the leader first takes in the events that are ready, so
    that what they ask for shares one fsync, and then goes to the disk itself. It gives up the lead before
    if more actions wait or the last one was slow; on a quick disk, waking a follower would cost more than
    it gains.

    Who leads is about speed only. A thread that is deposed at an awkward moment polls once more beside the
    new leader, which is as correct as polling alone.
    """

    def __init__(
        self,
        poll: Callable[[], Event],
        poll_ready: Callable[[], Event | None],
        size: int,
        on_error: OnError,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        assert size >= 1
        self._poll = poll
        self._poll_ready = poll_ready
        self._on_error = on_error
        self._now_s = now_s
        self._baton = threading.Lock()  # held by the leader
        self._change = threading.Lock()  # guards giving up the lead, and what is deferred
        self._leader: int | None = None
        self._deferred: dict[Action, None] = {}  # a set that keeps its order
        self._last_action_s = 0.0
        self._is_busy = False  # the leader runs a callback or an action
        self._turn = 0  # how many of them leaders have begun
        self._stirred = threading.Event()  # a leader has begun another turn since the watcher looked
        self._finished = threading.Event()
        self._pollers = [
            threading.Thread(target=self._serve, name=f"grpc-poller-{number}", daemon=True) for number in range(size)
        ]
        self._watcher = threading.Thread(target=self._watch, name="grpc-poller-watch", daemon=True)

    def start(self) -> None:
        """Starts the threads; they end when `poll` yields an event without a tag and no action waits."""
        for thread in (*self._pollers, self._watcher):
            thread.start()

    def defer(self, action: Action) -> None:
        """Runs an action after the events that are ready; equal ones that wait count as one.

        This is for callbacks of the leader. Any other thread runs the action at once.
        """
        with self._change:
            is_leader = self._leader == threading.get_ident()
            if is_leader:
                self._deferred[action] = None
        if not is_leader:
            action()

    def has_this_thread(self) -> bool:
        """Whether the caller is one of the crew."""
        return threading.current_thread() in self._pollers

    def join(self) -> None:
        """Waits for the end of all threads."""
        for thread in self._pollers:
            thread.join()
        self._finished.set()
        self._stirred.set()
        self._watcher.join()

    def _serve(self) -> None:
        me = threading.get_ident()
        has_more = True
        while has_more:
            self._baton.acquire()
            self._leader = me
            self._is_busy = False
            has_more = self._lead(me)
            self._depose(me)

    def _lead(self, me: int) -> bool:
        """Runs events and actions while this thread leads; whether there may be more."""
        poll = self._poll
        deferred_s: float | None = None  # when this thread first saw that an action waits
        while self._leader == me:
            if not self._deferred:
                event = poll()
            else:
                now_s = self._now_s()
                deferred_s = now_s if deferred_s is None else deferred_s
                event = self._poll_ready() if now_s - deferred_s < ACTION_DELAY_S_MAX else None
            if event is not None and event.tag is not None:
                self._run(me, event.tag, event)
                # An event holds its call: kept over the next poll, it would hinder the server's shutdown.
                event = None
            elif self._deferred:
                deferred_s = None
                self._act(me)
            else:
                return False
        return True

    def _run(self, me: int, callback: Callable[..., None], *arguments: Event) -> None:
        if self._leader == me:
            self._is_busy = True
            self._turn += 1
            if not self._stirred.is_set():
                self._stirred.set()
        try:
            callback(*arguments)
        except BaseException as error:
            self._on_error("transport", error)
        if self._leader == me:
            self._is_busy = False

    def _act(self, me: int) -> None:
        """Runs the oldest of the deferred actions."""
        with self._change:
            if self._leader != me:
                return  # the new leader will
            action = next(iter(self._deferred))
            del self._deferred[action]
        if self._deferred or self._last_action_s > SLOW_ACTION_S:
            self._depose(me)
        began_s = self._now_s()
        self._run(me, action)
        self._last_action_s = self._now_s() - began_s

    def _depose(self, leader: int) -> None:
        with self._change:
            if self._leader == leader:
                self._leader = None
                self._baton.release()

    def _watch(self) -> None:
        while self._stirred.wait() and not self._finished.is_set():
            self._stirred.clear()
            leader, turn = self._leader, self._turn
            self._finished.wait(STUCK_AFTER_S)
            if self._is_busy and self._turn == turn and leader is not None:
                self._depose(leader)
