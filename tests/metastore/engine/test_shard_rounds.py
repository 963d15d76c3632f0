"""Rounds: what is shared, what is visible when, and what a failure leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metastore.clock import ManualClock
from metastore.engine.errors import EngineError, InvalidRequest, ShardStopped, StoreFull, StoreInUse
from metastore.engine.operations import Get, PutOptions, Range, WriteBatch, WriteResult
from metastore.engine.rounds import Chain, Request
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.stage import Stage
from metastore.engine.store import StoreOptions
from metastore.faults import ArmedFault, Faults

SEQUENCE = PutOptions(partition_key=b"p", sequence_key_deltas=(0,))
"""A sequence put that every shard refuses."""


class Observer(Faults):
    """Calls a function at a named point."""

    def __init__(self, point: str, look: Callable[[], None]) -> None:
        self._point = point
        self._look = look

    def reach(self, point: str) -> None:
        if point == self._point:
            self._look()


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard", clock=ManualClock()) as shard:
        yield shard


def put(key: bytes, value: bytes = b"v", options: PutOptions | None = None) -> WriteBatch:
    return WriteBatch(puts=[(key, value, options)])


def submit_together(
    shard: Shard, batches: list[WriteBatch], chain: Chain | None = None
) -> list[WriteResult | BaseException | None]:
    """The outcomes of writes that wait at the same time."""
    outcomes: list[Any] = [None] * len(batches)

    def submit_all() -> None:
        for place, batch in enumerate(batches):

            def done(result: WriteResult | None, error: BaseException | None, place: int = place) -> None:
                outcomes[place] = error or result

            shard.submit_write(batch, done, chain)

    shard.rounds.between_rounds(submit_all)
    return outcomes


def keys_of(shard: Shard) -> list[bytes]:
    with shard.list_keys(Range(b"", b"")) as scan:
        return scan.next_chunk()


def test_what_waits_together_shares_one_append(shard: Shard) -> None:
    rounds_before = shard.statistics.round_requests.count
    outcomes = submit_together(shard, [put(b"a"), put(b"b"), put(b"c")])
    assert all(isinstance(outcome, WriteResult) for outcome in outcomes)
    assert shard.statistics.round_requests.count == rounds_before + 1
    assert len(shard.log.read(0)) == 1
    assert shard.next_offset == 3


def test_nobody_reads_what_is_not_yet_durable(tmp_path: Path) -> None:
    seen: list[list[bytes]] = []
    opened: list[Shard] = []
    faults = Observer("round.sync.after", lambda: seen.append(keys_of(opened[0])))
    with Shard.open(tmp_path / "shard", faults=faults) as shard:
        opened.append(shard)
        shard.write(put(b"a"))
        shard.write(put(b"b"))
        assert seen == [[], [b"a"]]
        assert keys_of(shard) == [b"a", b"b"]


def test_a_refused_request_leaves_its_neighbours_alone(shard: Shard) -> None:
    first, refused, last = submit_together(
        shard, [put(b"a"), WriteBatch(puts=[(b"b", b"v", None), (b"s", b"v", SEQUENCE)]), put(b"c")]
    )
    assert isinstance(first, WriteResult)
    assert isinstance(refused, InvalidRequest)
    assert isinstance(last, WriteResult)
    assert keys_of(shard) == [b"a", b"c"]
    assert shard.next_offset == 2


def test_behind_a_failed_write_of_a_chain_nothing_is_applied(shard: Shard) -> None:
    first, refused, behind = submit_together(shard, [put(b"a"), put(b"s", options=SEQUENCE), put(b"c")], Chain())
    assert isinstance(first, WriteResult)
    assert isinstance(refused, InvalidRequest)
    assert isinstance(behind, EngineError)
    assert keys_of(shard) == [b"a"]


def test_a_failed_sync_stops_the_shard_and_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    faults = ArmedFault("log.sync.after", 2, "ioerror")
    shard = Shard.open(tmp_path / "shard", faults=faults)
    shard.write(put(b"a"))
    with pytest.raises(ShardStopped):
        shard.write(put(b"b"))
    with pytest.raises(ShardStopped):
        shard.write(put(b"c"))
    with pytest.raises(ShardStopped):
        shard.get(Get(b"a"))
    shard.close()
    with Shard.open(tmp_path / "shard") as again:
        assert again.get(Get(b"a")) is not None


def test_an_error_that_nobody_foresaw_fails_its_round_and_not_the_shard(shard: Shard) -> None:
    outcomes: list[Any] = []

    def stage_and_break(stage: Stage, batch: WriteBatch) -> None:
        stage.write(batch)
        raise ZeroDivisionError

    def done(result: Any, error: BaseException | None) -> None:
        outcomes.append(error or result)

    shard.rounds.submit(Request(stage_and_break, put(b"half"), done, makes_space=False))
    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError]
    shard.write(put(b"a"))
    assert keys_of(shard) == [b"a"]
    assert shard.next_offset == 1


def fill_until_refused(shard: Shard) -> int:
    """How many writes of 500 bytes the shard took before it was full."""
    for number in range(10_000):
        try:
            shard.write(put(b"k%06d" % number, b"v" * 500))
        except StoreFull:
            return number
        shard.feeder.feed_all()
    raise AssertionError("the quota was never reached")


def test_over_the_quota_only_deletes_are_accepted_until_there_is_space(tmp_path: Path) -> None:
    store = StoreOptions(generation_bytes=16 << 10, lag_bytes_max=1 << 20)
    options = ShardOptions(quota_bytes=256 << 10, store=store)
    with Shard.open(tmp_path / "shard", options) as shard:
        number = fill_until_refused(shard)
        assert 0 < number < 1_000
        assert shard.get(Get(b"k%06d" % 0)) is not None
        assert shard.statistics.refused_full == 1
        for start in range(0, number, 50):
            shard.write(WriteBatch(deletes=[(b"k%06d" % each, None) for each in range(start, min(start + 50, number))]))
        shard.feeder.feed_all()
        shard.write(put(b"again"))
        assert keys_of(shard) == [b"again"]


def test_a_shard_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    with Shard.open(tmp_path / "shard"), pytest.raises(StoreInUse, match="in use"):
        Shard.open(tmp_path / "shard")


def test_a_closed_shard_says_so(tmp_path: Path) -> None:
    shard = Shard.open(tmp_path / "shard")
    shard.close()
    with pytest.raises(ShardStopped):
        shard.write(put(b"a"))
    with pytest.raises(ShardStopped):
        shard.get(Get(b"a"))
    shard.close()
