"""A process that writes to a store on ZooKeeper in every way there is, until it is killed.

    python zookeeper_writer.py URL

It says `begun` when its session is open. Where it is killed says TIDEMARK_FAULT; see `metastore.faults`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from unittest import mock

from metastore.faults import faults_from_environment
from metastore.interface import Delete, Environment, Put, Range, open_store
from metastore.providers.zookeeper import plans

SWEEP_RECORDS = 4
"""So that the removal of a range takes several writes."""


async def write(url: str) -> None:
    async with await open_store(url, Environment(faults=faults_from_environment(os.environ))) as store:
        session = await store.open_session(2_000, identity="writer")
        print("begun", flush=True)
        for number in itertools.count():
            await store.put("alive", b"", session=session, indexes=[("state", "alive")])
            for place in range(6):
                indexes = [("numbers", f"{number}/{place}"), ("places", str(place))]
                await store.put(f"range/{place}", b"%d" % number, indexes=indexes)
            await store.put("s", b"", partition_key="p", sequence_deltas=[1, 2], indexes=[("numbers", "s")])
            owned = Put(f"own/{number % 3}", b"", is_ephemeral=True)
            await store.transact("p", [owned, Put("count", b"%d" % number), Delete("nothing")], session=session)
            await store.delete_range(Range("range/", "range//"))


if __name__ == "__main__":
    with mock.patch.object(plans, "SWEEP_RECORDS_MAX", SWEEP_RECORDS):
        asyncio.run(write(sys.argv[1]))
