"""One history of the model, and one reader of an emulated watch after the other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from emulation_judge import Judge
from emulation_model import Delete, DeleteRange, ModelShards, Put, Write

from metastore.interface import ALL, Range, TokenExpired
from metastore.interface.store import Watch
from metastore.providers.wire.emulation import Emulation, feed, tail
from support.virtual_time import run_virtually

SHARDS = 2
BATCH_WITHIN_S = 100.0
"""Virtual: longer than all that a watch waits for by itself."""
IDLE_S = 0.15
"""Virtual: over when nothing moves, and a watch that begins has waited for a quiet moment."""

NAMES = ("a", "b", "c", "d/x", "e")
BORDERS = ("", "a", "b", "c", "d", "f", "d/", "z/z")
SECONDARY_KEYS = ("in1", "in2", "out", "in/x")
WATCHED: tuple[tuple[Range, str | None], ...] = (
    (ALL, None),
    (Range("b", "d"), None),
    (Range("a", "d/y"), None),
    (ALL, "i"),
    (Range("in", "io"), "i"),
)

Step = tuple[Any, ...]
"""What happens, and to what."""


@dataclass(frozen=True)
class Plot:
    """A history, and how it is read."""

    seed: int
    """Of who waits how long."""
    range: Range
    index: str | None
    has_previous_values: bool
    is_eager: bool
    """The reader looks for news at every step; otherwise where the script says so."""
    batches_max: int
    """That wait for a watch."""
    script: Sequence[Step]

    def play(self) -> None:
        # What is put off after so many rounds is told later, but a token may come in between; there is a test of that.
        with patch.object(feed, "ROUNDS_MAX", 1_000_000), patch.object(tail, "WAITING_BATCHES_MAX", self.batches_max):
            run_virtually(self._play())

    async def _play(self) -> None:
        await Run(self).play()


class Run:
    """One history, and one reader after the other."""

    def __init__(self, plot: Plot) -> None:
        choice = random.Random(plot.seed)
        self._plot = plot
        self._model = ModelShards(choice, SHARDS)
        self._judge = Judge(self._model, plot.range, plot.index, plot.has_previous_values)
        self._make_watch = Emulation(choice)
        self._can_resume = not plot.has_previous_values
        self._resumed: str | None = None
        """The token by which the watch was resumed."""
        self._watch = self._open(has_snapshot=True, is_resumed=False)

    def _open(self, has_snapshot: bool, is_resumed: bool) -> Watch:
        self._resumed = self._judge.token if is_resumed else None
        return self._make_watch(self._model, self._judge.request(has_snapshot, is_resumed))

    async def play(self) -> None:
        while self._plot.is_eager and self._judge.token is None:
            await self._read(BATCH_WITHIN_S)
        for name, *arguments in self._plot.script:
            await self._step(name, *arguments)
            if self._plot.is_eager:
                await self._poll()
        self._apply()
        while not self._judge.is_up_to_date:
            assert await self._read(BATCH_WITHIN_S), "what happened last was never told"
        await self._watch.close()

    async def _step(self, name: str, *arguments: Any) -> None:
        at_once: dict[str, Callable[..., object]] = {
            "commit": lambda shard, writes: self._write(shard, writes, is_applied=False),
            "fail": lambda shard: self._model.shards[shard].fail(),
            "end session": lambda shard: self._model.shards[shard].end_session(),
            "kill": lambda shard, back: self._model.kill(shard, self._model.shards[shard].committed - back),
            "cut": self._model.cut,
        }
        later: dict[str, Callable[..., Awaitable[object]]] = {
            "write": self._write_and_go_on,
            "turns": self._turns,
            "read": self._read_batches,
            "wait": self._wait,
            "trim": self._trim,
            "resume": lambda: self._begin(has_snapshot=True, is_resumed=self._can_resume),
            "begin": lambda has_snapshot: self._begin(has_snapshot, is_resumed=False),
        }
        if name in at_once:
            at_once[name](*arguments)
        else:
            await later[name](*arguments)

    async def _write_and_go_on(self, shard: int, writes: list[Write], turns: int) -> None:
        self._write(shard, writes)
        await self._turns(turns)

    async def _poll(self) -> None:
        """Takes what comes within a few turns. To give up waiting loses nothing."""
        reading = asyncio.ensure_future(self._read(BATCH_WITHIN_S))
        await self._turns(6)
        reading.cancel()
        await asyncio.wait({reading})
        if not reading.cancelled():
            reading.result()

    async def _turns(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def _read_batches(self, count: int) -> None:
        for _ in range(count):
            await self._read(IDLE_S)

    async def _wait(self, time_s: float) -> None:
        self._apply()
        await asyncio.sleep(time_s)

    def _apply(self) -> None:
        """What was committed, before more time goes by than servers take for it."""
        for shard in self._model.shards:
            shard.apply()

    def _write(self, shard: int, writes: list[Write], is_applied: bool = True) -> None:
        of_shard: dict[object, Write] = {}
        for number, each in enumerate(writes):
            write = each if isinstance(each, DeleteRange) else replace(each, key=f"{each.key}{shard}")
            # What a request does twice to a record that is new cannot be told from what it does to an old one, and
            # there is no mirror to say which it was.
            if self._can_resume and not isinstance(write, DeleteRange):
                of_shard[write.key] = write
            else:
                of_shard[number] = write
        self._model.shards[shard].write(of_shard.values(), is_applied)

    async def _trim(self, shard: int) -> None:
        """After a long time, in which everything is told that somebody listens to."""
        await self._wait(10)
        self._model.shards[shard].oldest = self._model.shards[shard].applied + 1

    async def _begin(self, has_snapshot: bool, is_resumed: bool) -> None:
        ended, self._watch = self._watch, self._open(has_snapshot, is_resumed)
        await ended.close()

    async def _read(self, within_s: float) -> bool:
        """Takes a batch, if there is one in time; whether there was anything."""
        try:
            async with asyncio.timeout(within_s):
                batch = await anext(self._watch)
        except TimeoutError:
            self._apply()
            return False
        except TokenExpired:
            may_have_expired = self._resumed is not None and self._judge.may_have_expired(self._resumed)
            assert may_have_expired or self._was_killed()
            await self._begin(has_snapshot=True, is_resumed=False)
            return True
        self._judge.take(batch)
        if self._judge.is_unclear:
            await self._begin(has_snapshot=True, is_resumed=False)
        return True

    def _was_killed(self) -> bool:
        """It is not known where a server stands that was killed, and keeps no notification by which to tell."""
        return any(shard.was_killed and shard.oldest for shard in self._model.shards)


def random_plot(seed: int) -> Plot:
    choice = random.Random(seed)
    watched, index = choice.choice(WATCHED)
    script = [_random_step(choice) for _ in range(choice.choice([5, 15, 40]))]
    has_previous_values, is_eager = choice.random() < 0.3, choice.random() < 0.5
    return Plot(seed, watched, index, has_previous_values, is_eager, choice.choice([1, 3, 256]), script)


def _random_step(choice: random.Random) -> Step:
    shard = choice.randrange(SHARDS)
    writes = [_random_write(choice) for _ in range(choice.choice([1, 1, 1, 2, 3]))]
    dice = choice.random()
    if dice < 0.6:
        return "write", shard, writes, choice.choice([0, 0, 1, 2, 4, 8, 16])
    if dice < 0.8:
        return "read", choice.randint(1, 5)
    return choice.choice(
        [
            ("turns", choice.randint(1, 30)),
            ("turns", choice.randint(1, 30)),
            ("commit", shard, writes),
            ("fail", shard),
            ("end session", shard),
            ("trim", shard),
            ("kill", shard, choice.randint(0, 5)),
            ("cut",),
            ("wait", choice.choice([0.01, 0.2, 3.0])),
            ("resume",),
            ("resume",),
            ("begin", choice.random() < 0.5),
        ]
    )


def _random_write(choice: random.Random) -> Write:
    dice = choice.random()
    if dice < 0.7:
        indexes = tuple([("i", choice.choice(SECONDARY_KEYS)) for _ in range(choice.choice([0, 1, 1, 1, 2]))])
        return Put(choice.choice(NAMES), indexes, is_ephemeral=choice.random() < 0.2)
    if dice < 0.95:
        return Delete(choice.choice(NAMES))
    return DeleteRange(choice.choice(BORDERS), choice.choice(BORDERS))
