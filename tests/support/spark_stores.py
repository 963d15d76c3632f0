"""Stores for the tests of the data source: filled, and read without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import pairwise

from metastore.interface import MetadataStore, open_store
from metastore.spark.batch import pieces_of
from metastore.spark.stores.model import Piece, SourceStore
from metastore.spark.stores.point import Point
from metastore.spark.views import Scope


def fill(url: str, records: Mapping[str, bytes], index: str | None = None) -> None:
    """Puts records, all at once; with an index, their values are their secondary keys."""

    async def put_all(store: MetadataStore) -> None:
        await asyncio.gather(
            *[
                store.put(key, value, indexes=[] if index is None else [(index, value.decode())])
                for key, value in records.items()
            ]
        )

    _with(url, put_all)


def remove(url: str, keys: Iterable[str]) -> None:
    """Deletes records."""

    async def delete_all(store: MetadataStore) -> None:
        await asyncio.gather(*[store.delete(key) for key in keys])

    _with(url, delete_all)


def _with(url: str, work: Callable[[MetadataStore], Awaitable[None]]) -> None:
    async def run() -> None:
        async with await open_store(url) as store:
            await work(store)

    asyncio.run(run())


def all_records(store: SourceStore, point: Point, parts: int = 1, rows: int = 1000) -> list[tuple[str, bytes]]:
    """Keys and values of a store at a point, read in so many pieces of each shard."""
    found: list[tuple[str, bytes]] = []
    for piece in pieces_of(store, Scope()):
        bounds = [b"", *store.cuts(piece, parts).keys, b""] if parts > 1 else [b"", b""]
        for low, high in pairwise(bounds):
            for records in store.scan(Piece(piece.shard, low, high), point, rows):
                keys = [key.decode() for key in records.keys.to_pylist()]
                found += zip(keys, records.values.to_pylist(), strict=True)
    return found
