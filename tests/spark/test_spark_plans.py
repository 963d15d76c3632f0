"""Reads are cut by what is there: a range with most of the records is in most of the pieces."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from metastore.interface import open_store
from metastore.spark.batch import plan
from metastore.spark.joint import plan as plan_together
from metastore.spark.stores.directory import DirectoryStore
from metastore.spark.stores.files import DirectoryShards
from metastore.spark.stores.mapping import pages_of
from metastore.spark.views import Kind, Scope

MANY, FEW = 8_000, 40
BATCH = 500


async def _fill(url: str) -> None:
    async with await open_store(url) as store:
        for first in range(0, MANY, BATCH):
            names = [f"{each:05}" for each in range(first, first + BATCH)]
            await asyncio.gather(
                *(store.put(f"/many/n{each}/x", b"v" * 50, indexes=[("many", each)]) for each in names)
            )
        for each in range(FEW):
            await store.put(f"/few/n{each * 200:05}", b"v", indexes=[("few", "one")])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose records are all in LMDB."""
    path = tmp_path_factory.mktemp("plans") / "store"
    asyncio.run(_fill(f"lmdb://{path}"))
    return path


def test_the_largest_scope_is_in_most_pieces(directory: Path) -> None:
    with DirectoryStore(DirectoryShards(directory, "default")) as store:
        pieces = plan(store, [Scope(index="few"), Scope(index="many")], 6)
        counts = Counter(piece.index for piece in pieces)
        assert counts[b"few"] == 1
        assert 5 <= counts[b"many"] <= 6
        many = [piece for piece in pieces if piece.index == b"many"]
        assert [piece.start for piece in many] == [b"", *(piece.end for piece in many[:-1])]
        assert many[-1].end == b""
        cuts = [int(piece.end) for piece in many[:-1]]
        assert all(abs(cut - (number + 1) * MANY / len(many)) < MANY / 10 for number, cut in enumerate(cuts))


def test_of_few_records_there_is_one_piece(directory: Path) -> None:
    with DirectoryStore(DirectoryShards(directory, "default")) as store:
        assert len(plan(store, [Scope(index="many")], 6, records_min=MANY)) == 1
        assert len(plan(store, [Scope(index="many")], 6, records_min=MANY // 4)) in (3, 4, 5)


@pytest.mark.parametrize("wanted", [2, 3, 7, 50, 1000])
def test_pieces_follow_each_other_however_many_are_wanted(directory: Path, wanted: int) -> None:
    with DirectoryStore(DirectoryShards(directory, "default")) as store:
        for index in ("few", "many"):
            pieces = plan(store, [Scope(index=index)], wanted)
            assert [piece.end for piece in pieces[:-1]] == [piece.start for piece in pieces[1:]]
            bounds = [piece.start for piece in pieces]
            assert bounds == sorted(set(bounds))
            assert pieces[-1].end == b""


def test_names_are_cut_where_most_records_are(directory: Path) -> None:
    with DirectoryStore(DirectoryShards(directory, "default")) as store:
        parts = plan_together(store, [Kind("/few"), Kind("/many", 2)], 4)
        assert len(parts) == 4
        names = [pieces[1].end.split(b"/")[2] for pieces, _ in parts[:-1]]
        bounds = [tuple(name.decode() for name in names[max(0, at - 1) : at + 1]) for at in range(4)]
        assert [each for _, each in parts] == bounds
        cuts = [int(name[1:]) for name in names]
        assert all(abs(cut - (number + 1) * MANY / 4) < MANY / 10 for number, cut in enumerate(cuts))


def test_pages_are_mapped_once_and_anew_when_there_are_more(directory: Path, tmp_path: Path) -> None:
    (data,) = directory.rglob("data.mdb")
    copy = tmp_path / "data.mdb"
    copy.write_bytes(data.read_bytes())
    first = pages_of(tmp_path, 4096)
    assert pages_of(tmp_path, 4096) is first
    with copy.open("ab") as file:
        file.write(bytes(4096))
    second = pages_of(tmp_path, 4096)
    assert second is not first
    assert len(second.content) == len(first.content) + 4096
