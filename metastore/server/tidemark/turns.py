"""Turns: one thread that serves all streams of a kind, a portion each, as long as there is something to say.

Who takes calls in, or drives a shard's round, has other things to do than to feed ten thousand watches, or to read
millions of records: he asks for a turn, which costs a lock. All else of a stream happens in its turns, by one thread,
and so needs no lock; and what computes for long has as much of the interpreter as one thread gets, however much it is.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Taker(Protocol):
    """Something that can be given a turn."""

    def take_turn(self) -> bool:
        """Does a bounded portion of what is due; whether there is more to do at once. Must not raise."""


class Turns:
    """The thread, which begins with the first who asks, and the queue of those who wait, each once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._change = threading.Condition()
        self._waiting: dict[Taker, None] = {}  # a set that keeps its order
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def ask(self, taker: Taker) -> None:
        """Gives a turn, soon; one, however often it is asked for before. Any thread; after the end nothing happens."""
        with self._change:
            if taker in self._waiting or self._is_closed:
                return
            self._waiting[taker] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._change.notify()

    def close(self) -> None:
        """Ends the thread after the turn that is under way."""
        with self._change:
            self._is_closed = True
            self._change.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._is_closed)
                if self._is_closed:
                    return
                taker = next(iter(self._waiting))
                del self._waiting[taker]
            if taker.take_turn():
                self.ask(taker)
