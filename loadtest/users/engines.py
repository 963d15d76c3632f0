"""The engine's process, from within gevent: pipes are read by a greenlet, and waiting for it lets others go on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import gevent
from gevent import subprocess
from gevent.event import Event

from loadtest.engine.messages import Order, decode_outcomes, encode
from loadtest.outcomes import Mark, Outcome

CLOSE_WITHIN_S = 30.0
"""How long an engine may take to clear up."""


class EngineFailed(Exception):
    """The engine says why, or has ended."""


class Engine:
    """A running engine."""

    def __init__(self, order: Order, heard: Callable[[Outcome], None], marked: Callable[[Mark], None]) -> None:
        self._heard = heard
        self._marked = marked
        self._ready, self._finished, self._ended = Event(), Event(), Event()
        self.failure: str | None = None
        self.is_finished = False
        # A session of its own: an interruption at the keyboard is for locust, which then ends the engine in good order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loadtest.engine"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._reading = gevent.spawn(self._read)
        self._say(order.encode())

    def wait_ready(self) -> None:
        """Returns when everything is prepared; EngineFailed if that cannot be."""
        self._wait(self._ready)

    def wait_ended(self) -> None:
        """Returns when it has ended, with or without a failure."""
        self._ended.wait()

    def set_rates(self, rates: Mapping[str, float]) -> None:
        """So many arrivals a second of each scenario from now on."""
        self._say(encode({"rates": dict(rates)}))

    def finish(self) -> None:
        """No more arrivals; returns when every outcome was heard."""
        self.is_finished = True
        self._say(encode({"finish": True}))
        self._wait(self._finished)

    def close(self) -> None:
        """Lets it clear up, and waits for its end."""
        self._to.close()
        try:
            self._process.wait(timeout=CLOSE_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()

    def _say(self, line: bytes) -> None:
        try:
            self._to.write(line)
            self._to.flush()
        except BrokenPipeError:
            self._ended.wait()  # its last line, or its end, says why

    def _wait(self, event: Event) -> None:
        gevent.wait([event, self._ended], count=1)
        if not event.is_set():
            raise EngineFailed(self.failure)

    def _read(self) -> None:
        with self._from as lines:
            for line in lines:
                self._obey(json.loads(line))
        code = self._process.wait()
        if self.failure is None and (code or not self._finished.is_set()):
            self.failure = f"the engine ended with exit code {code}"
        self._ended.set()

    def _obey(self, said: Mapping[str, Any]) -> None:
        for outcome in decode_outcomes(said.get("outcomes", ())):
            self._heard(outcome)
        for mark in said.get("marks", ()):
            self._marked(Mark(*mark))
        if "failed" in said:
            self.failure = said["failed"]
        if said.get("ready"):
            self._ready.set()
        if said.get("finished"):
            self._finished.set()
