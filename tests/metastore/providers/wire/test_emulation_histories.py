"""The emulated watch under anything that may happen: what it tells is held against the history of a model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
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
IDLE_S = 0.000_1
"""Virtual: over as soon as nothing moves."""

names = st.sampled_from(["a", "b", "c", "d/x", "e"])
borders = st.sampled_from(["", "a", "b", "c", "d", "f", "d/", "z/z"])
indexes = st.lists(st.tuples(st.just("i"), st.sampled_from(["in1", "in2", "out", "in/x"])), max_size=2, unique=True)
writes = st.one_of(
    st.builds(lambda name, found, owned: Put(name, tuple(found), owned), names, indexes, st.booleans()),
    st.builds(lambda name, found, owned: Put(name, tuple(found), owned), names, indexes, st.booleans()),
    st.builds(Delete, names),
    st.builds(DeleteRange, borders, borders),
)
some_writes = st.lists(writes, min_size=1, max_size=3)
shards = st.integers(0, SHARDS - 1)
steps = st.one_of(
    st.tuples(st.just("write"), shards, some_writes),
    st.tuples(st.just("write"), shards, some_writes),
    st.tuples(st.just("commit"), shards, some_writes),
    st.tuples(st.just("apply"), shards),
    st.tuples(st.just("fail"), shards),
    st.tuples(st.just("end session"), shards),
    st.tuples(st.just("trim"), shards),
    st.tuples(st.just("kill"), shards, st.integers(0, 5)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("turns"), st.integers(1, 30)),
    st.tuples(st.just("read"), st.integers(1, 5)),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 0.2, 3.0])),
    st.tuples(st.just("resume")),
    st.tuples(st.just("begin"), st.booleans()),
)
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
        self._is_fresh = False
        """Resumed, and has not told anything yet."""
        self._watch = self._open(has_snapshot=True, is_resumed=False)

    def _open(self, has_snapshot: bool, is_resumed: bool) -> Watch:
        self._is_fresh = is_resumed and self._judge.token is not None
        return self._make_watch(self._model, self._judge.request(has_snapshot, is_resumed))

    async def play(self, script: list[tuple]) -> None:  # type: ignore[type-arg]
        for name, *arguments in script:
            await self._step(name, *arguments)
        for shard in self._model.shards:
            shard.apply()
        while not self._judge.is_up_to_date:
            assert await self._read(BATCH_WITHIN_S), "what happened last was never told"
        await self._watch.close()

    async def _step(self, name: str, *arguments: int) -> None:
        on_shard: dict[str, Callable[..., object]] = {
            "write": self._write,
            "commit": lambda shard, writes: self._write(shard, writes, is_applied=False),
            "apply": lambda shard: self._model.shards[shard].apply(),
            "fail": lambda shard: self._model.shards[shard].fail(),
            "end session": lambda shard: self._model.shards[shard].end_session(),
            "trim": self._trim,
            "kill": lambda shard, back: self._model.kill(shard, self._model.shards[shard].committed - back),
            "cut": self._model.cut,
        }
        if name in on_shard:
            on_shard[name](*arguments)
        elif name == "turns":
            for _ in range(arguments[0]):
                await asyncio.sleep(0)
        elif name == "read":
            for _ in range(arguments[0]):
                await self._read(IDLE_S)
        elif name == "wait":
            for shard in self._model.shards:
                shard.apply()  # no server takes so long
            await asyncio.sleep(arguments[0])
        elif name == "resume":
            await self._begin(has_snapshot=True, is_resumed=self._can_resume)
        else:
            assert name == "begin"
            await self._begin(has_snapshot=bool(arguments[0]), is_resumed=False)

    def _write(self, shard: int, writes: list[Write], is_applied: bool = True) -> None:
        of_shard = [
            each if isinstance(each, DeleteRange) else type(each)(f"{each.key}{shard}", *_rest(each)) for each in writes
        ]
        self._model.shards[shard].write(of_shard, is_applied)

    def _trim(self, shard: int) -> None:
        self._model.shards[shard].oldest = self._model.shards[shard].applied + 1

    async def _begin(self, has_snapshot: bool, is_resumed: bool) -> None:
        await self._watch.close()
        self._watch = self._open(has_snapshot, is_resumed)

    async def _read(self, within_s: float) -> bool:
        """Takes a batch, if there is one in time; whether there was anything."""
        try:
            async with asyncio.timeout(within_s):
                batch = await anext(self._watch)
        except TimeoutError:
            return False
        except TokenExpired:
            assert (self._is_fresh and self._judge.may_have_expired()) or self._was_killed()
            await self._begin(has_snapshot=True, is_resumed=False)
            return True
        self._judge.take(batch)
        self._is_fresh = False
        return True

    def _was_killed(self) -> bool:
        """It is not known where a server stands that was killed, and keeps no notification by which to tell."""
        return any(shard.understated is not None for shard in self._model.shards)


def _rest(write: Put | Delete) -> tuple[object, ...]:
    return (write.indexes, write.is_ephemeral) if isinstance(write, Put) else ()


@settings(max_examples=60, report_multiple_bugs=False, deadline=None)
@given(st.integers(0, 2**32), watched, st.booleans(), st.lists(steps, max_size=40))
def test_what_is_told_is_what_happened(seed, watched, has_previous_values, script):  # type: ignore[no-untyped-def]
    async def scenario() -> None:
        await Run(seed, *watched, has_previous_values).play(script)

    # What is put off after so many rounds is told later, but a token may come in between; see the test of that.
    with patch.object(feed, "ROUNDS_MAX", 1_000_000):
        run_virtually(scenario())
