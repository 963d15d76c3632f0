"""The engine as a process: lines in, lines out, and nothing else on its standard output."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from controller.client import InvalidRequest
from loadtest.engine.generator import Generator, wall_offset_s
from loadtest.engine.messages import LINE_BYTES_MAX, Order, encode, encode_news
from loadtest.outcomes import Mark, Outcome
from loadtest.scenarios import TargetMissing
from metastore.interface import StoreError
from txn.coordinator.waiting import first_of
from txn.model.errors import TxnError

TOLD_EVERY_S = 0.1
OUTCOMES_HELD_MAX = 2_000_000
"""Outcomes that the reader has not taken."""
EXPECTED = (StoreError, TxnError, InvalidRequest, TargetMissing, TimeoutError)
"""What keeps an engine from working that its user can do something about."""


class _Behind(Exception):
    """The reader does not take outcomes as fast as they come."""


class _Voice:
    """Collects outcomes, and tells them now and then."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._offset_s = wall_offset_s()
        self._outcomes: list[Outcome] = []
        self._marks: list[Mark] = []

    def record(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome._replace(began_s=outcome.began_s + self._offset_s))

    def note(self, scenario: str, text: str) -> None:
        self._marks.append(Mark(int(time.time()), scenario, text))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TOLD_EVERY_S)
            if len(self._outcomes) > OUTCOMES_HELD_MAX:
                raise _Behind(f"{len(self._outcomes)} outcomes were not read (OUTCOMES_HELD_MAX): use more processes")
            await self.tell()

    async def tell(self) -> None:
        """All that is known."""
        if self._outcomes or self._marks:
            outcomes, marks, self._outcomes, self._marks = self._outcomes, self._marks, [], []
            await self.say(encode_news(outcomes, marks))

    async def say(self, line: bytes) -> None:
        self._writer.write(line)
        await self._writer.drain()


async def serve() -> int:
    """Works until standard input ends; the exit code."""
    reader, writer = await _pipes()
    voice = _Voice(writer)
    try:
        await _work(reader, voice)
    except (*EXPECTED, _Behind, ExceptionGroup) as error:
        first = _first_of(error)
        if not isinstance(first, (*EXPECTED, _Behind)):
            raise
        await voice.say(encode({"failed": f"{type(first).__name__}: {first}"}))
        return 1
    return 0


async def _work(reader: asyncio.StreamReader, voice: _Voice) -> None:
    order = Order.decode(await reader.readline())
    generator = Generator(order.names, order.settings, voice.record, voice.note, order.limits, order.spacing)
    async with generator:
        await voice.say(encode({"ready": True}))
        await first_of(_obey(reader, generator, voice), voice.run(), generator.failure())


async def _obey(reader: asyncio.StreamReader, generator: Generator, voice: _Voice) -> None:
    """Does what is said until nothing more is."""
    while line := await reader.readline():
        said = json.loads(line)
        if "rates" in said:
            generator.set_rates(said["rates"])
        if said.get("finish"):
            await generator.finish()
            await voice.tell()
            await voice.say(encode({"finished": True}))


async def _pipes() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(LINE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), sys.stdout.buffer
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _first_of(error: BaseException) -> BaseException:
    """The first error of several."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
