"""Writes through the embedded store until it is killed, and prints each key as soon as it is acknowledged."""

from __future__ import annotations

import asyncio
import itertools
import sys

from metastore.interface import MetadataStore, open_store

WRITERS = 16


async def write(store: MetadataStore, writer: int) -> None:
    for number in itertools.count():
        key = f"/{writer}/{number}"
        await store.put(key, key.encode(), indexes=[("by-number", f"{number:08}")])
        print(key, flush=True)


async def main(url: str) -> None:
    async with await open_store(url) as store:
        await asyncio.gather(*(write(store, writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
