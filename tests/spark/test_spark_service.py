"""What a service tells of very many records is what a directory has: as records and as pages, at any point."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.clock import ManualClock
from metastore.engine.change import Table
from metastore.engine.operations import WriteBatch
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.store import StoreOptions
from metastore.server.tidemark.portions import portion_messages, record_messages
from metastore.spark import pin
from metastore.spark.stores import past
from metastore.spark.stores.leaves import Unsent
from metastore.spark.stores.model import Piece
from metastore.spark.stores.opening import open_source
from metastore.spark.stores.service import PAGES_TAG, RECORDS_TAG, told
from support.fixtures import StartServer
from support.local_shard import SMALL_LOG
from support.spark_stores import all_records, fill, remove

HOLD_MS = 5_000
ROOMY_STORE = StoreOptions(map_bytes=1 << 30, generation_bytes=8 << 10, lag_bytes_max=8 << 20)
"""It need not grow while points are held."""
END = b"\xff"


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    options = ShardOptions("natural", store=ROOMY_STORE, log=SMALL_LOG)
    with Shard.open(tmp_path, options, ManualClock()) as opened:
        yield opened


def change(shard: Shard, choice: random.Random, longest: int, key_bytes: int = 0) -> None:
    """Some puts and deletes, of which LMDB may hold nothing yet."""
    keys = {b"%0*d" % (key_bytes, choice.randrange(2000)) for _ in range(choice.choice([3, 400]))}
    shard.write(
        WriteBatch(
            puts=[(key, choice.randbytes(choice.randrange(longest)), None) for key in keys],
            deletes=[(b"%d" % choice.randrange(2000), None) for _ in range(20)],
        )
    )


def by_records(shard: Shard, point: int, low: bytes, high: bytes, rows: int = 1000) -> list[bytes]:
    return list(record_messages(shard.points.pages(point, Table.RECORDS, low, high), None, rows))


def by_pages(shard: Shard, point: int, low: bytes, high: bytes, rows: int = 1000) -> list[bytes]:
    return list(portion_messages(shard.points.leaves(point, low, high), rows))


def items(shard: Shard, point: int, messages: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Keys and values of messages; of large values those that are told instead."""
    found: list[tuple[bytes, bytes]] = []
    for message in messages:
        for part in told(message, 0, is_index=False):
            if isinstance(part, Unsent):
                again = items(shard, point, by_records(shard, point, part.first, part.last + b"\0"))
                assert len(again) == part.records
                found += again
            else:
                assert len(part)
                found += zip(part.keys.to_pylist(), part.values.to_pylist(), strict=True)
    return found


@pytest.mark.parametrize("longest", [60, 3000])
@pytest.mark.parametrize("seed", range(3))
def test_pages_tell_what_records_do(shard: Shard, seed: int, longest: int) -> None:
    choice = random.Random(seed)
    seen: set[bytes] = set()
    for _ in range(12):
        change(shard, choice, longest)
        if choice.random() < 0.7:
            shard.feeder.feed_all()
            change(shard, choice, longest)
        point, _ = shard.points.hold(HOLD_MS)
        change(shard, choice, longest)
        if choice.random() < 0.5:
            shard.feeder.feed_all()
        low, high = sorted([b"%d" % choice.randrange(2000), choice.choice([b"%d" % choice.randrange(2000), END])])
        for start, end in ((b"", END), (low, high)):
            rows = choice.choice([1, 100, 5000])
            messages = by_pages(shard, point, start, end, rows)
            assert items(shard, point, messages) == items(shard, point, by_records(shard, point, start, end, rows))
            seen |= {message[:1] for message in messages}
        shard.points.release(point)
    assert seen == {PAGES_TAG, RECORDS_TAG}


def test_records_with_long_keys_are_told_as_records(shard: Shard) -> None:
    choice = random.Random(1)
    change(shard, choice, 60)
    change(shard, choice, 60, key_bytes=600)
    shard.feeder.feed_all()
    point, _ = shard.points.hold(HOLD_MS)
    messages = by_pages(shard, point, b"", END)
    assert {message[:1] for message in messages} == {RECORDS_TAG}
    assert messages == by_records(shard, point, b"", END)


def test_messages_are_of_about_as_many_records_as_are_wanted(shard: Shard) -> None:
    shard.write(WriteBatch(puts=[(b"%05d" % number, b"v" * 100, None) for number in range(5000)]))
    shard.feeder.feed_all()
    point, _ = shard.points.hold(HOLD_MS)
    for rows in (2000, 10_000):
        counts = [len(items(shard, point, [message])) for message in by_pages(shard, point, b"", END, rows)]
        assert sum(counts) == 5000
        assert max(counts) <= rows
        assert len(counts) <= 5000 // min(rows, 5000) * 2


@pytest.mark.parametrize("sorting", ["hierarchical", "natural"])
def test_a_service_and_its_directory_say_the_same(
    start_server: StartServer, sorting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "BLOCK_BYTES", 10_000)
    choice = random.Random(7)
    before = {f"/{number % 7}/{number}": choice.randbytes(choice.choice([10, 200, 3000])) for number in range(3000)}
    server = start_server(sorting=sorting)
    service, directory = f"oxia://{server.address}", f"lmdb://{server.data_directory}"
    fill(service, before)
    server.terminate()  # by then LMDB has all
    server.start()
    with pin(service) as of_service, pin(directory) as of_directory:
        fill(service, {f"/{number % 7}/{number}": b"new" for number in range(0, 3000, 500)})
        remove(service, [f"/{number % 7}/{number}" for number in range(1, 3000, 700)])
        for store, point in ((service, of_service.point), (directory, of_directory.point)):
            with open_source(store, None) as source:
                for parts, rows in ((1, 5000), (5, 100)):
                    assert dict(all_records(source, point, parts, rows)) == before
    with pin(service) as pinned, open_source(service, None) as source:
        now = dict(all_records(source, pinned.point, 3))
        assert len(now) == len(before) - 5
        assert now["/3/500"] == b"new"
        (records,) = source.scan(Piece(source.shards[0], b"/3/500", b"/3/500\0"), pinned.point, 10)
        assert records.keys.to_pylist() == [b"/3/500"]


@pytest.mark.parametrize("key", ["a//", "a/", "a/7", "a/\0", "a"])
def test_large_values_are_read_once_whatever_their_keys_end_with(start_server: StartServer, key: str) -> None:
    server = start_server(sorting="hierarchical")
    service = f"oxia://{server.address}"
    levels = ("a/{}", "a/{}/x", "a//{}", "a//{}/x")
    records = {level.format(number): b"small" for level in levels for number in range(100)} | {key: b"large" * 1000}
    fill(service, records)
    server.terminate()  # by then LMDB has all
    server.start()
    fill(service, {"a/0/x": b"new", "a//0": b"new"})
    with pin(service) as pinned, open_source(service, None) as source:
        found = all_records(source, pinned.point)
    assert dict(found) == records | {"a/0/x": b"new", "a//0": b"new"}
    assert len(found) == len(records)
