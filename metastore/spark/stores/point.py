"""One state of each shard of a store, as a text that travels with the options of a read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metastore.spark.errors import WrongOption

POINT_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Point:
    """One state of each shard of a store."""

    store: str
    """Which data it is of."""
    shards: Mapping[int, Mapping[str, Any]]
    """What the store needs to find each state again; at least its `offset`, the first that it does not hold."""
    is_consistent: bool = True

    def __str__(self) -> str:
        content = {"format": POINT_FORMAT, "store": self.store, "shards": self.shards, "consistent": self.is_consistent}
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Point:
        """What `str` made of a point; WrongOption for anything else."""
        try:
            content = json.loads(text)
            assert content["format"] == POINT_FORMAT
            shards = {int(shard): dict(state) for shard, state in content["shards"].items()}
            return cls(str(content["store"]), shards, bool(content["consistent"]))
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
            raise WrongOption(f"point {text[:80]!r} is none: give what `metastore.spark.pin(store)` returned") from None
