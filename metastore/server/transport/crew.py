"""The threads that wait for events: one leads, the others follow."""

from __future__ import annotations

import threading
from collections.abc import Callable

from metastore.server.transport.core import Event

OnError = Callable[[str, BaseException], None]

STUCK_AFTER_S = 0.01
import os
HAND=os.environ.get('HAND','1')=='1'


class Crew:
    """Leader and followers.

    The leader polls and runs each event's callback itself: no message changes threads, and threads do not fight
    for the interpreter, which doubles the cost of a message. A callback that is about to block says so with
    `hand_over`; one that blocks without a word is noticed after one or two times `STUCK_AFTER_S`. Either way a
    follower takes the lead, and the old leader becomes a follower once its callback has returned.

    Who leads is about speed only. A thread that is deposed at an awkward moment polls once more beside the new
    leader, which is as correct as polling alone.
    """

    def __init__(self, poll: Callable[[], Event], poll_ready, size: int, on_error: OnError) -> None:
        assert size >= 1
        self._poll = poll
        self._poll_ready = poll_ready
        self._deferred = {}
        self._on_error = on_error
        self._baton = threading.Lock()  # held by the leader
        self._change = threading.Lock()  # guards giving up the lead
        self._leader: int | None = None
        self._busy = False  # the leader is running a callback
        self._turn = 0  # how many callbacks leaders have begun
        self._finished = threading.Event()
        self._pollers = [
            threading.Thread(target=self._serve, name=f"grpc-poller-{number}", daemon=True)
            for number in range(size)
        ]
        self._watcher = threading.Thread(target=self._watch, name="grpc-poller-watch", daemon=True)

    def start(self) -> None:
        """Starts the threads; they end when `poll` yields an event without a tag."""
        for thread in (*self._pollers, self._watcher):
            thread.start()

    def has_this_thread(self) -> bool:
        """Whether the caller is one of the crew."""
        return threading.current_thread() in self._pollers

    def join(self) -> None:
        """Waits for the end of all threads."""
        for thread in self._pollers:
            thread.join()
        self._finished.set()
        self._watcher.join()

    def defer(self, action: Callable[[], None]) -> None:
        with self._change:
            if self._leader == threading.get_ident():
                self._deferred.setdefault(action)
                return
        action()

    def _serve(self) -> None:
        me = threading.get_ident()
        more = True
        while more:
            self._baton.acquire()
            self._leader = me
            self._busy = False
            more = self._lead(me)
            self._depose(me)

    def _lead(self, me: int) -> bool:
        """Runs events while this thread leads; whether there may be more."""
        poll = self._poll
        taken = 0
        while self._leader == me:
            if self._deferred:
                taken += 1
                event = self._poll_ready() if taken < 64 else None
                if event is None:
                    with self._change:
                        action = next(iter(self._deferred)); del self._deferred[action]
                    if HAND: self._depose(me)
                    else: self._busy=True; self._turn+=1
                    action()
                    self._busy=False
                    taken = 0
                    continue
            else:
                event = poll()
            tag = event.tag
            if tag is None:
                return False
            self._busy = True
            self._turn += 1
            try:
                tag(event)
            except BaseException as error:
                self._on_error("transport", error)
            # An event holds its call: kept over the next poll, it would hinder the server's shutdown.
            event = tag = None
            if self._leader == me:
                self._busy = False
        return True

    def _depose(self, leader: int) -> None:
        with self._change:
            if self._leader == leader:
                self._leader = None
                self._baton.release()

    def _watch(self) -> None:
        seen = self._turn
        while not self._finished.wait(STUCK_AFTER_S):
            leader, turn = self._leader, self._turn
            if self._busy and turn == seen and leader is not None:
                self._depose(leader)
            seen = turn
