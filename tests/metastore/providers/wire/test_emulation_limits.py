"""What an emulated watch bounds, puts off, and refuses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence

import pytest
from emulation_judge import Judge
from emulation_model import Delete, DeleteRange, ModelShards, Put

from metastore.interface import (
    ALL,
    AccessDenied,
    BatchKind,
    ChangeKind,
    LimitExceeded,
    Range,
    Record,
    TokenExpired,
    Unsupported,
    Watch,
)
from metastore.providers.wire.emulation import Emulation
from metastore.providers.wire.emulation.feed import AUDITS_MAX, NEWS_WAITING_MAX, PORTION_RECORDS, ROUNDS_MAX
from metastore.providers.wire.emulation.mirror import Bounds
from metastore.providers.wire.emulation.tail import WAITING_BATCHES_MAX
from metastore.providers.wire.scans import IndexedKey
from support.virtual_time import run_virtually

WITHIN_S = 100.0


class Reader:
    """A watch over a model with one shard, and the judge of what it tells."""

    def __init__(
        self,
        shards: ModelShards | None = None,
        index: str | None = None,
        has_previous_values: bool = False,
        bounds: Bounds | None = None,
    ) -> None:
        self.shards = shards or ModelShards(random.Random(1))
        self.shard = self.shards.shards[0]
        self.judge = Judge(self.shards, ALL if index is None else Range("in", "io"), index, has_previous_values)
        self._make_watch = Emulation(random.Random(2), bounds or Bounds())
        self.watch = self._open(is_resumed=False)

    def _open(self, is_resumed: bool) -> Watch:
        return self._make_watch(self.shards, self.judge.request(True, is_resumed))

    async def resume(self) -> None:
        await self.watch.close()
        self.watch = self._open(is_resumed=True)

    async def read(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            self.judge.take(await anext(self.watch))

    async def begin(self) -> None:
        while self.judge.token is None:
            await self.read()

    async def catch_up(self) -> None:
        while not self.judge.is_up_to_date:
            await self.read()


def test_a_range_may_have_so_many_records_and_no_more() -> None:
    async def scenario(records: int, further: int) -> None:
        reader = Reader(bounds=Bounds(records_max=10))
        reader.shard.write([Put(f"{number}") for number in range(records)])
        await reader.begin()
        reader.shard.write([Put(f"more-{number}") for number in range(further)])
        await reader.catch_up()
        await reader.watch.close()

    run_virtually(scenario(10, 0))
    run_virtually(scenario(5, 5))
    for records, further in [(11, 0), (10, 1), (0, 11)]:
        with pytest.raises(LimitExceeded, match="MIRROR_RECORDS_MAX"):
            run_virtually(scenario(records, further))


def test_an_index_may_have_so_many_records_and_no_more() -> None:
    async def scenario(records: int) -> None:
        reader = Reader(index="i", bounds=Bounds(records_max=10))
        for number in range(records):
            reader.shard.write([Put(f"{number}", (("i", "in"),)), Put(f"out-{number}", (("i", "out"),))])
        await reader.begin()
        await reader.catch_up()
        await reader.watch.close()

    run_virtually(scenario(10))
    with pytest.raises(LimitExceeded, match="MIRROR_RECORDS_MAX"):
        run_virtually(scenario(11))


def test_previous_values_may_have_so_many_bytes_and_no_more() -> None:
    async def scenario(records: int, has_previous_values: bool) -> None:
        reader = Reader(has_previous_values=has_previous_values, bounds=Bounds(bytes_max=10))
        for number in range(records):  # the model's values are the numbers of their versions
            reader.shard.write([Put(f"{number}")])
        await reader.begin()
        reader.shard.write([Delete("0"), Delete("1")])
        await reader.catch_up()
        await reader.watch.close()

    run_virtually(scenario(10, True))
    run_virtually(scenario(11, False))
    with pytest.raises(LimitExceeded, match="MIRROR_BYTES_MAX"):
        run_virtually(scenario(11, True))


class Busy(ModelShards):
    """Something is written in the middle of every look."""

    def __init__(self, *writes: Put | DeleteRange, times: int) -> None:
        super().__init__(random.Random(1))
        self.writes = writes
        self.times = times

    def _disturb(self) -> None:
        if self.times:
            self.times -= 1
            self.shards[0].write(self.writes)

    async def scan_shard(self, shard: int, range: Range, index: str | None) -> AsyncGenerator[Record, None]:
        async for record in super().scan_shard(shard, range, index):
            yield record
        self._disturb()

    async def index_entries(self, shard: int, range: Range, index: str) -> AsyncGenerator[IndexedKey, None]:
        async for entry in super().index_entries(shard, range, index):
            yield entry
        self._disturb()

    async def get_many(self, shard: int, keys: Sequence[str], include_value: bool = True) -> list[Record | None]:
        if self._disturbs_gets:
            self._disturb()
        return await super().get_many(shard, keys, include_value)

    @property
    def _disturbs_gets(self) -> bool:
        return isinstance(self.writes[0], Put)


@pytest.mark.parametrize("index", [None, "i"])
def test_ranges_may_be_deleted_again_and_again_while_a_watch_begins(index: str | None) -> None:
    async def scenario(times: int) -> None:
        reader = Reader(Busy(DeleteRange("x", "z"), times=times), index)
        reader.shard.write([Put("a", (("i", "in"),))])
        await reader.begin()
        await reader.watch.close()

    run_virtually(scenario(AUDITS_MAX - 1))
    with pytest.raises(LimitExceeded, match="AUDITS_MAX"):
        run_virtually(scenario(10 * AUDITS_MAX))


def test_ranges_may_be_deleted_again_and_again_while_a_watch_goes_on() -> None:
    async def scenario(times: int) -> None:
        shards = Busy(DeleteRange("x", "z"), times=0)
        reader = Reader(shards)
        reader.shard.write([Put("a"), Put("x")])
        await reader.begin()
        shards.times = times
        reader.shard.write([DeleteRange("x", "z")])
        await reader.catch_up()
        assert [change.kind for change in reader.judge.changes] == [ChangeKind.DELETED]
        await reader.watch.close()

    run_virtually(scenario(AUDITS_MAX - 1))
    with pytest.raises(LimitExceeded, match="AUDITS_MAX"):
        run_virtually(scenario(AUDITS_MAX))


def test_a_record_that_never_rests_holds_up_no_other() -> None:
    """Whether it is in the range of the index cannot be seen; it is put off until it rests."""

    class BusyWithOthers(Busy):
        def _disturb(self) -> None:
            super()._disturb()
            if self.times == 5 * ROUNDS_MAX:
                self.shards[0].write([Put("other", (("i", "in"),))])

    async def scenario() -> None:
        shards = BusyWithOthers(Put("hot", (("i", "in"),)), times=0)
        reader = Reader(shards, "i")
        reader.shard.write([Put("hot")])
        await reader.begin()
        shards.times = 10 * ROUNDS_MAX
        reader.shard.write([Put("hot")])
        told = []
        while shards.times or not reader.judge.is_up_to_date:
            batch = await anext(reader.watch)
            told += [(change.key, change.kind, shards.times > 0) for change in batch.changes]
            for change in batch.changes:
                assert change.record is not None
                reader.judge.state[change.key] = change.record
        assert told == [("other", ChangeKind.CREATED, True), ("hot", ChangeKind.ENTERED, False)]
        await reader.watch.close()

    run_virtually(scenario())


def test_a_reader_that_is_slow_costs_no_more_than_this() -> None:
    async def scenario() -> None:
        reader = Reader()
        await reader.begin()
        writes = 20 * WAITING_BATCHES_MAX
        for number in range(writes):
            reader.shard.write([Put(f"{number % 10}")])
            await asyncio.sleep(0)
        await asyncio.sleep(1)
        calls = reader.shards.calls
        await asyncio.sleep(60)
        assert reader.shards.calls == calls  # nothing goes on while nobody reads
        told = len(reader.judge.changes)
        for _ in range(NEWS_WAITING_MAX):
            await reader.read()
        assert len(reader.judge.changes) - told <= NEWS_WAITING_MAX * 10
        await reader.catch_up()
        await reader.watch.close()

    run_virtually(scenario())


def test_a_snapshot_comes_in_portions_at_the_pace_of_its_reader() -> None:
    async def scenario() -> None:
        reader = Reader()
        records = PORTION_RECORDS * (NEWS_WAITING_MAX + 2) + 1
        reader.shard.write([Put(f"{number:06}") for number in range(records)])
        await reader.read()
        await asyncio.sleep(60)
        sizes = []
        while (batch := await anext(reader.watch)).kind is BatchKind.SNAPSHOT:
            sizes.append(len(batch.records))
        assert sizes == [PORTION_RECORDS] * (NEWS_WAITING_MAX + 2) + [1]
        await reader.watch.close()

    run_virtually(scenario())


def test_previous_values_are_not_resumed() -> None:
    async def scenario() -> None:
        reader = Reader(has_previous_values=True)
        await reader.begin()
        with pytest.raises(Unsupported, match="cannot be resumed"):
            await reader.resume()

    run_virtually(scenario())


def test_what_a_request_does_twice_to_a_new_record_is_resumed_as_if_it_were_old() -> None:
    """The one thing that a watch without a mirror takes for something else, and nothing says so."""

    async def scenario() -> None:
        reader = Reader()
        reader.shard.write([Put("a")])
        await reader.begin()
        reader.shard.write([Put("twice"), Put("twice"), Put("gone"), Delete("gone")])
        await reader.resume()
        batch = await anext(reader.watch)
        assert {change.key: change.kind for change in batch.changes} == {
            "twice": ChangeKind.MODIFIED,
            "gone": ChangeKind.DELETED,
        }
        await reader.watch.close()

    run_virtually(scenario())


def test_a_shard_that_was_never_written_is_resumed_for_ever() -> None:
    async def scenario() -> None:
        reader = Reader()
        await reader.begin()
        reader.shard.write([Put("a"), Put("a"), Put("b")])
        reader.shard.write([DeleteRange("b", "c")])
        reader.shard.write([Put("c")])
        reader.shard.oldest = 3
        await reader.resume()
        await reader.catch_up()
        assert {change.kind for change in reader.judge.changes} == {ChangeKind.CREATED}
        await reader.watch.close()

    run_virtually(scenario())


def test_an_error_that_does_not_pass_ends_the_watch() -> None:
    async def scenario() -> None:
        reader = Reader()
        await reader.begin()
        reader.shards.refusal = AccessDenied("the token is not known any more")
        reader.shards.cut()
        for _ in range(3):
            with pytest.raises(AccessDenied, match="not known"):
                await reader.read()
        await reader.watch.close()

    run_virtually(scenario())


def test_a_token_that_has_expired_stays_so() -> None:
    async def scenario() -> None:
        reader = Reader()
        reader.shard.write([Put("a")])
        await reader.begin()
        reader.shard.write([DeleteRange("a", "b")])
        await reader.resume()
        for _ in range(3):
            with pytest.raises(TokenExpired, match="a range of keys was deleted from 'a' on"):
                await reader.read()
        await reader.watch.close()

    run_virtually(scenario())


def test_a_closed_watch_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        for steps in range(60):
            reader = Reader()
            reader.shard.write([Put("a"), Put("b")])
            waiting = asyncio.ensure_future(anext(reader.watch, None))
            for _ in range(steps):
                await asyncio.sleep(0)
            await reader.watch.close()
            await waiting
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtually(scenario())
