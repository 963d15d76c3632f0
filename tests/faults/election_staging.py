"""Candidates as processes of their own: started, killed, frozen, cut off, and heard."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from election_relay import Relay

CANDIDATE = Path(__file__).with_name("election_candidate.py")
ROOT = CANDIDATE.parents[2]
WITHIN_S = 45.0
"""How long anything may take that is waited for."""
SHOWN_EVENTS = 20


@dataclass(frozen=True)
class Event:
    """A line that a candidate has written."""

    candidate: str
    name: str
    term: int
    at_s: float
    key: str = ""
    count: int = 0


@dataclass
class Stage:
    """What all candidates have said, in the order in which it was heard."""

    events: list[Event] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def add(self, event: Event) -> None:
        async with self._news:
            self.events.append(event)
            self._news.notify_all()

    async def wait(self, name: str, *, after: int = 0, candidate: str | None = None) -> Event:
        """The first event of that name from a place in the list on."""

        def look() -> Event | None:
            named = (event for event in self.events[after:] if event.name == name)
            return next((event for event in named if candidate in (None, event.candidate)), None)

        return await self._until(look, f"somebody to say {name!r}")

    async def wait_leader(self, *, after: int = 0, writes: int, written_after: int = 0) -> Event:
        """The election of whoever leads now, was elected from a place on, and has written so often from another on."""

        def look() -> Event | None:
            elected = [event for event in self.events[after:] if event.name == "elected"]
            latest = max(elected, key=lambda event: event.term, default=None)
            if latest is None:
                return None
            wrote = (event.name == "wrote" and event.term == latest.term for event in self.events[written_after:])
            return latest if sum(wrote) >= writes else None

        return await self._until(look, f"a leader that writes {writes} times")

    async def _until(self, look: Callable[[], Event | None], what: str) -> Event:
        try:
            async with asyncio.timeout(WITHIN_S), self._news:
                while (found := look()) is None:
                    await self._news.wait()
                return found
        except TimeoutError:
            raise AssertionError(
                f"waited {WITHIN_S} s for {what}; the last that was said: {self.events[-SHOWN_EVENTS:]}"
            ) from None


class Candidate:
    """One candidate, over all its processes, behind a relay of its own."""

    def __init__(self, name: str, stage: Stage, relay: Relay, session_timeout_ms: int) -> None:
        self.name = name
        self.relay = relay
        self._stage = stage
        self._session_timeout_ms = session_timeout_ms
        self._process: Process | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts a process."""
        arguments = [f"oxia://{self.relay.address}", self.name, str(self._session_timeout_ms)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, str(CANDIDATE), *arguments, stdout=PIPE, env=environment
        )
        self._hearing = asyncio.ensure_future(self._hear(self._process))

    async def _hear(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if not line.endswith(b"\n"):
                break  # it was killed while it spoke
            said: dict[str, Any] = json.loads(line)
            event = Event(
                self.name, said["event"], said["term"], said["at_s"], said.get("key", ""), said.get("count", 0)
            )
            await self._stage.add(event)

    def send(self, number: signal.Signals) -> None:
        """Sends the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """Ends the process at once, and hears what it still had to say."""
        if self._process is not None and self._hearing is not None:
            if self._process.returncode is None:
                self.send(signal.SIGKILL)
            await self._process.wait()
            await self._hearing


@asynccontextmanager
async def candidates(
    count: int, stage: Stage, port: int, session_timeout_ms: int
) -> AsyncIterator[dict[str, Candidate]]:
    """Candidates that run; at the end all their processes are gone."""
    started: dict[str, Candidate] = {}
    relays = [Relay(port) for _ in range(count)]
    try:
        for number, relay in enumerate(relays):
            await relay.__aenter__()
            candidate = Candidate(f"candidate-{number}", stage, relay, session_timeout_ms)
            started[candidate.name] = candidate
            await candidate.start()
        yield started
    finally:
        for candidate in started.values():
            await candidate.kill()
            await candidate.relay.__aexit__(None, None, None)
