"""The recorded records of a real Pulsar, and stores that hold them."""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from metastore.interface import MetadataStore

VECTORS = Path(__file__).parent / "vectors" / "pulsar-records.json.xz"


@cache
def vectors() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress(VECTORS.read_bytes()))
    return found


def dump_names() -> list[str]:
    return sorted(vectors()["dumps"])


async def load(store: MetadataStore, name: str) -> None:
    """Puts the records of a dump into a store, with the index entries that they had."""
    dump = vectors()["dumps"][name]
    indexes = defaultdict(list)
    for index, entries in dump["indexes"].items():
        for secondary_key, key, *_ in entries:
            indexes[key].append((index, secondary_key))
    for key, value, *_ in dump["records"]:
        await store.put(key, value.encode(), partition_key=_partition(key), indexes=indexes[key])


def _partition(key: str) -> str | None:
    """The partition keys with which Pulsar puts what is looked up by key."""
    room, _, name = key.removeprefix("/txn/").partition("/")
    if room in ("id", "op"):
        return name.partition("-")[0] or None
    return name.removeprefix("watermark/") if name.startswith("watermark/") else None
