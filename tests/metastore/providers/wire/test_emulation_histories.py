"""The emulated watch under anything that may happen: what it tells is held against the history of a model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from emulation_judge import Judge
from emulation_model import Delete, DeleteRange, ModelShards, Put, Write
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.interface import ALL, Range, TokenExpired
from metastore.interface.store import Watch
from metastore.providers.wire.emulation import Emulation, feed
from support.virtual_time import run_virtually

SHARDS = 2
BATCH_WITHIN_S = 100.0
"""Virtual: longer than all that a watch waits for by itself."""
IDLE_S = 0.15
"""Virtual: over when nothing moves, and a watch that begins has waited for a quiet moment."""

names = st.sampled_from(["a", "b", "c", "d/x", "e"])
borders = st.sampled_from(["", "a", "b", "c", "d", "f", "d/", "z/z"])
indexes = st.lists(st.tuples(st.just("i"), st.sampled_from(["in1", "in2", "out", "in/x"])), max_size=2, unique=True)
writes = st.one_of(
    st.builds(lambda name, found, owned: Put(name, tuple(found), owned), names, indexes, st.booleans()),
    st.builds(lambda name, found: Put(name, tuple(found)), names, indexes),
    st.builds(Delete, names),
    st.one_of(st.builds(Delete, names), st.builds(DeleteRange, borders, borders)),
)
some_writes = st.lists(writes, min_size=1, max_size=3)
shards = st.integers(0, SHARDS - 1)
written = st.tuples(st.just("write"), shards, some_writes, st.integers(0, 12))
reading = st.tuples(st.just("read"), st.integers(1, 5))
rare = st.one_of(
    st.tuples(st.just("commit"), shards, some_writes),
    st.tuples(st.just("fail"), shards),
    st.tuples(st.just("end session"), shards),
    st.tuples(st.just("trim"), shards),
    st.tuples(st.just("kill"), shards, st.integers(0, 5)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("turns"), st.integers(1, 30)),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 0.2, 3.0])),
    st.tuples(st.just("resume")),
    st.tuples(st.just("begin"), st.booleans()),
)
steps = st.one_of(written, written, written, reading, rare, rare)
watched = st.one_of(
    st.tuples(st.sampled_from([ALL, Range("b", "d"), Range("a", "d/y")]), st.none()),
    st.tuples(st.sampled_from([ALL, Range("in", "io")]), st.just("i")),
)


class Run:
    """One history, and one reader after the other."""

    def __init__(self, seed: int, range: Range, index: str | None, has_previous_values: bool) -> None:
        choice = random.Random(seed)
        self._model = ModelShards(choice, SHARDS)
        self._judge = Judge(self._model, range, index, has_previous_values)
        self._make_watch = Emulation(choice)
        self._can_resume = not has_previous_values
        self._resumed: str | None = None
        """The token by which the watch was resumed."""
        self._watch = self._open(has_snapshot=True, is_resumed=False)

    def _open(self, has_snapshot: bool, is_resumed: bool) -> Watch:
        self._resumed = self._judge.token if is_resumed else None
        return self._make_watch(self._model, self._judge.request(has_snapshot, is_resumed))

    async def play(self, script: list[tuple[Any, ...]], is_eager: bool) -> None:
        """Eager, the reader looks for news at every step; otherwise where the script says so."""
        while is_eager and self._judge.token is None:
            await self._read(BATCH_WITHIN_S)
        for name, *arguments in script:
            await self._step(name, *arguments)
            if is_eager:
                await self._poll()
        for shard in self._model.shards:
            shard.apply()
        while not self._judge.is_up_to_date:
            assert await self._read(BATCH_WITHIN_S), "what happened last was never told"
        await self._watch.close()

    async def _step(self, name: str, *arguments: Any) -> None:
        at_once: dict[str, Callable[..., object]] = {
            "commit": lambda shard, writes: self._write(shard, writes, is_applied=False),
            "fail": lambda shard: self._model.shards[shard].fail(),
            "end session": lambda shard: self._model.shards[shard].end_session(),
            "trim": self._trim,
            "kill": lambda shard, back: self._model.kill(shard, self._model.shards[shard].committed - back),
            "cut": self._model.cut,
        }
        later: dict[str, Callable[..., Awaitable[object]]] = {
            "write": self._write_and_go_on,
            "turns": self._turns,
            "read": self._read_batches,
            "wait": self._wait,
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
        for shard in self._model.shards:
            shard.apply()  # no server takes so long
        await asyncio.sleep(time_s)

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

    def _trim(self, shard: int) -> None:
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


@settings(max_examples=300, report_multiple_bugs=False, deadline=None)
@given(st.integers(0, 2**32), watched, st.booleans(), st.booleans(), st.lists(steps, max_size=40))
def test_what_is_told_is_what_happened(  # type: ignore[no-untyped-def]
    seed, watched, has_previous_values, is_eager, script
):
    async def scenario() -> None:
        range, index = watched
        await Run(seed, range, index, has_previous_values).play(script, is_eager)

    # What is put off after so many rounds is told later, but a token may come in between; see the test of that.
    with patch.object(feed, "ROUNDS_MAX", 1_000_000):
        run_virtually(scenario())
