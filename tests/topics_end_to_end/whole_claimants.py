"""Applications that are to be the only ones who produce: they wait for the right, take it away, die with it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

from controller.client import Access, Client, ProducerOptions, TopicMessageId, TopicSent
from topics_end_to_end.whole_notebook import Attempt, Notebook
from topics_end_to_end.whole_producers import KEYS, PACE_S, send_one
from txn.model.errors import TxnError

TESTS = Path(__file__).resolve().parents[1]
BURSTS_MAX = 5
BURST = 4
DOOMED_SENDS = 24
DOOMED_ANSWERS = 8
"""So many of its sends are answered before a process is killed."""


class Claimant:
    """One after another of its producers sends for a while, if it is let."""

    def __init__(self, book: Notebook, client: Client, topic: str, name: str, access: Access) -> None:
        self._book = book
        self._client = client
        self._topic = topic
        self._name = name
        self._access = access
        self._random = random.Random(name)
        self._lives = 0
        self.is_over = False

    async def run(self) -> None:
        """Until it is over."""
        while not self.is_over:
            await self.live(self._access, self._random.randint(1, BURSTS_MAX))
            await asyncio.sleep(PACE_S)

    async def live(self, access: Access, bursts: int) -> None:
        """One producer, from its opening to its end, by which it gives the right back unless it has lost it."""
        self._lives += 1
        name, invoked = f"{self._name}-{self._lives}", self._book.tick()
        try:
            producer = await self._client.producer(self._topic, options=ProducerOptions(access=access))
        except TxnError as error:
            self._book.counts[f"claims: {type(error).__name__}"] += 1
            return
        async with producer:
            if access is not Access.SHARED:
                self._book.claimed(self._topic, name, invoked)
            for burst in range(bursts):
                numbers = range(burst * BURST, (burst + 1) * BURST)
                sends = [
                    send_one(self._book, producer, self._topic, self._random.choice(KEYS), name, number)
                    for number in numbers
                ]
                if not all(await asyncio.gather(*sends)):
                    break
                await asyncio.sleep(PACE_S)


class DoomedClaimant:
    """A process that takes the right from whoever has it, and is killed while it sends."""

    def __init__(self, book: Notebook, url: str, topic: str) -> None:
        self._book = book
        self._arguments = (url, topic)
        self._topic = topic
        self._name = f"doomed-{book.tick()}"

    async def run(self) -> None:
        """From its start to its death."""
        invoked = self._book.tick()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "topics_end_to_end.whole_doomed", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert await process.stdout.readline() == b"granted\n"
            self._book.claimed(self._topic, self._name, invoked)
            attempts = self._send(process.stdin)
            await process.stdin.drain()
            for _ in range(DOOMED_ANSWERS):
                self._hear(attempts, json.loads(await process.stdout.readline()))
        finally:
            process.kill()
            await process.wait()
        self._book.counts["claimants killed"] += 1

    def _send(self, pipe: asyncio.StreamWriter) -> dict[str, Attempt]:
        attempts = {}
        for number in range(DOOMED_SENDS):
            key = KEYS[number % len(KEYS)]
            attempt = self._book.attempt(self._book.want_keyed(self._topic, key, self._name, number))
            attempts[attempt.written.message] = attempt
            pipe.write(f"{json.dumps([attempt.written.message, key])}\n".encode())
        return attempts

    def _hear(self, attempts: dict[str, Attempt], answer: list[object]) -> None:
        name, where = answer
        if where is None:
            self._book.counts["sends: of the doomed"] += 1
            return
        assert isinstance(name, str)
        assert isinstance(where, str)
        attempt = attempts[name]
        self._book.sent(attempt, TopicSent(attempt.written.number, TopicMessageId.parse(where)))
