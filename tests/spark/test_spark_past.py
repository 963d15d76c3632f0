"""A directory that another process writes is read at a point, whatever happens to it meanwhile."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType

import lmdb
import pytest

from metastore.spark.errors import PointGone, StoreUnreachable, WrongOption
from metastore.spark.stores import past
from metastore.spark.stores.directory import DirectoryStore
from metastore.spark.stores.files import DirectoryShards
from metastore.spark.stores.model import Piece
from metastore.spark.stores.point import Point
from support.server import PROJECT_ROOT
from support.spark_stores import all_records

FEED_ALL = 1_000_000
LONG = "/long/" + "x" * 1200
KEYS = [*(f"/a/{number}" for number in range(30)), *(f"{LONG}/{number}" for number in range(4)), "b"]


class Writer:
    """The process that owns the directory, and what its records are."""

    def __init__(self, path: Path, sorting: str) -> None:
        command = [sys.executable, "-m", "support.shard_writer", str(path), sorting]
        places = [str(PROJECT_ROOT), str(PROJECT_ROOT / "tests")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.records: dict[str, bytes] = {}
        self._answer("ready")

    def _answer(self, expected: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == expected

    def do(self, command: str) -> None:
        """Has something done."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        self._answer("done")

    def put(self, key: str, value: str) -> None:
        self.records[key] = value.encode()
        self.do(f"put {key} {value}")

    def delete(self, key: str) -> None:
        self.records.pop(key, None)
        self.do(f"delete {key}")

    def disturb(self, choice: random.Random, times: int) -> None:
        """Writes, deletes and feeds, at random."""
        for number in range(times):
            what = choice.random()
            if what < 0.6:
                self.put(choice.choice(KEYS), f"{choice.randrange(5)}-{number}" + "v" * choice.choice([0, 3, 3000]))
            elif what < 0.85:
                self.delete(choice.choice(KEYS))
            else:
                self.do(f"feed {choice.choice([1, 2, 3, 7, FEED_ALL])}")

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=30)


@contextmanager
def holding(path: Path) -> Iterator[tuple[subprocess.Popen[str], Point]]:
    """A process that holds a point of a directory."""
    command = [sys.executable, "-m", "metastore.spark.holder", f"lmdb://{path}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        yield holder, Point.parse(holder.stdout.readline())
        holder.communicate()


def read(store: DirectoryStore, point: Point) -> dict[str, bytes]:
    found = all_records(store, point, rows=7)
    assert len(found) == len(dict(found))
    return dict(found)


def read_by_index(store: DirectoryStore, point: Point) -> list[tuple[str, str, bytes]]:
    found = []
    for records in store.scan(Piece(0, index=b"by-value"), point, 7):
        assert records.secondary_keys is not None
        keys = zip(records.secondary_keys, records.keys.to_pylist(), records.values.to_pylist(), strict=True)
        found += [(secondary.decode(), key.decode(), value) for secondary, key, value in keys]
    return found


def read_keys_by_index(store: DirectoryStore, point: Point) -> list[tuple[str, str]]:
    found = []
    for records in store.scan(Piece(0, index=b"by-value", keys_only=True), point, 7):
        keys = zip(records.secondaries.to_pylist(), records.keys.to_pylist(), strict=True)
        found += [(secondary.decode(), key.decode()) for secondary, key in keys]
    return found


@pytest.mark.parametrize("sorting", ["hierarchical", "natural"])
@pytest.mark.parametrize("seed", range(2))
def test_a_held_point_is_read_as_it_was(
    tmp_path: Path, sorting: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(seed)
    monkeypatch.setattr(past, "BLOCK_BYTES", choice.choice([past.BLOCK_BYTES, 2000]))
    with Writer(tmp_path, sorting) as writer:
        writer.disturb(choice, 40)
        with ExitStack() as stack:
            expected = dict(writer.records)
            # The point is found again from its text, as it is in a task.
            held = Point.parse(str(DirectoryShards(tmp_path, "default").hold(stack)))
        # LMDB's transactions have ended with the stack, so a holder of its own process is needed for what follows.
        assert held.shards[0]["offset"] > 0
        with holding(tmp_path) as (_, point):
            for _ in range(3):
                with DirectoryStore(DirectoryShards(tmp_path, "default")) as store:
                    assert read(store, point) == expected
                    by_index = sorted((value.decode()[0], key, value) for key, value in expected.items())
                    assert sorted(read_by_index(store, point)) == by_index
                    assert sorted(read_keys_by_index(store, point)) == [entry[:2] for entry in by_index]
                writer.disturb(choice, 30)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_point_is_gone_with_its_holder(tmp_path: Path, is_killed: bool) -> None:
    choice = random.Random(3)
    with Writer(tmp_path, "hierarchical") as writer, DirectoryStore(DirectoryShards(tmp_path, "default")) as store:
        writer.disturb(choice, 40)
        expected = dict(writer.records)
        with holding(tmp_path) as (holder, point):
            writer.disturb(choice, 30)
            assert read(store, point) == expected
            if is_killed:
                holder.kill()
                holder.wait()
                writer.disturb(choice, 30)
                assert read(store, point) == expected, "LMDB keeps the pages of the dead until it looks after them"
                writer.do("trim")
        for _ in range(5):
            with pytest.raises(PointGone, match="no longer kept" if is_killed else "must outlive all reads of it"):
                read(store, point)
            writer.disturb(choice, 30)


def test_whoever_cannot_be_known_to_lmdb_reads_what_was_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(4)
    with Writer(tmp_path, "hierarchical") as writer, DirectoryStore(DirectoryShards(tmp_path, "default")) as store:
        writer.disturb(choice, 200)
        writer.do(f"feed {FEED_ALL}")
        # So LMDB does by itself where it cannot write.
        monkeypatch.setattr(lmdb, "open", partial(lmdb.open, lock=False))
        expected, point = dict(writer.records), store.pin(1000)
        assert read(store, point) == expected
        found: list[tuple[bytes, bytes]] = []
        with pytest.raises(PointGone, match="mounted read only"):  # noqa: PT012
            for records in store.scan(Piece(0), point, 1):
                found += zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
                writer.disturb(choice, 10)
                writer.do(f"feed {FEED_ALL}")
        assert found
        assert all(expected[key.decode()] == value for key, value in found)
        with holding(tmp_path) as (_, held):
            expected = dict(writer.records)
            assert read(store, held) == expected
            writer.disturb(choice, 40)
            writer.do(f"feed {FEED_ALL}")
            with pytest.raises(PointGone, match="must outlive"):
                read(store, held)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_holder_a_point_is_read_as_it_was_or_not_at_all(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    with Writer(tmp_path, "hierarchical") as writer, DirectoryStore(DirectoryShards(tmp_path, "default")) as store:
        if seed == 0:
            writer.do("previous")  # then nothing is ever lost
        writer.disturb(choice, 30)
        expected, point = dict(writer.records), store.pin(1000)
        lost = 0
        for _ in range(5):
            try:
                assert read(store, point) == expected
            except PointGone:
                lost += 1
            writer.disturb(choice, 10)
        assert seed != 0 or lost == 0


def test_lmdb_forgets_those_who_were_killed(tmp_path: Path) -> None:
    with (
        Writer(tmp_path, "natural") as writer,
        holding(tmp_path) as (holder, _),
        closing(DirectoryShards(tmp_path, "default").files(0)) as files,
    ):
        holder.kill()
        holder.wait()
        assert f" {holder.pid} " in files.environment.readers()
        writer.do("trim")
        assert f" {holder.pid} " not in files.environment.readers()


def test_what_was_trimmed_is_told(tmp_path: Path) -> None:
    with Writer(tmp_path, "natural") as writer, DirectoryStore(DirectoryShards(tmp_path, "default")) as store:
        point = store.pin(1000)
        for number in range(60):
            writer.put(f"k{number % 3}", "v" * 3000)
        writer.do(f"feed {FEED_ALL}")
        writer.do("trim")
        with pytest.raises(PointGone, match="no longer kept"):
            read(store, point)
        with pytest.raises(PointGone, match="begins at offset"):
            list(store.changes(Piece(0), 0, 10))


def test_a_copy_on_which_nothing_can_be_written_is_read(tmp_path: Path) -> None:
    with Writer(tmp_path, "hierarchical") as writer:
        writer.disturb(random.Random(5), 30)
    with DirectoryStore(DirectoryShards(tmp_path, "default")) as store:
        assert read(store, store.pin(1000)) == writer.records


def test_wrong_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match=r"holds no store"):
        DirectoryStore(DirectoryShards(tmp_path, "default"))
    with Writer(tmp_path, "hierarchical"):
        with pytest.raises(WrongOption, match="it has default"):
            DirectoryStore(DirectoryShards(tmp_path, "other"))
        with DirectoryStore(DirectoryShards(tmp_path, "default")) as store:
            with pytest.raises(WrongOption, match="the point is of store"):
                store.check_point(Point("another", {}))
            with pytest.raises(WrongOption, match="ends before it starts"):
                list(store.scan(Piece(0, b"b", b"a"), store.pin(1000), 10))


def test_who_holds_a_point_imports_no_more_than_that_takes() -> None:
    """A point is waited for, and numpy and Arrow take longer to import than it takes to hold one."""
    code = "import sys, metastore.spark.holder; print(*sorted({'numpy', 'pyarrow', 'pyspark'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
