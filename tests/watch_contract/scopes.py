"""What watchers look at: ranges of keys and of an index, wide, narrow and empty, of all shards or of a partition."""

from __future__ import annotations

import random
from collections.abc import Sequence

from metastore.interface import ALL, Range, children_of, exactly
from watch_contract.notes import Notes
from watch_contract.sightings import Scope
from watch_contract.writer import COLORS, INDEX, OTHER_INDEX, OWN_KEYS, SHARED_KEYS, SHARED_PARTITION

PARTITIONS = 0.2
"""How many watch one partition."""


def random_scope(
    choice: random.Random, writers: Sequence[str], notes: Notes, has_previous: bool
) -> tuple[Scope, str | None]:
    """A range, and the partition if it is of one."""
    range, index = _random_range(choice, writers)
    partition = None
    if choice.random() < PARTITIONS:
        partition = choice.choice([SHARED_PARTITION, *writers, *(f"{writer}-many" for writer in writers)])
    shards = tuple(_all(notes)) if partition is None else (notes.shard_of(partition),)
    return Scope(range, index, shards, has_previous and choice.random() < 0.6), partition


def _all(notes: Notes) -> Sequence[int]:
    return range(notes.shards)


def _random_range(choice: random.Random, writers: Sequence[str]) -> tuple[Range, str | None]:
    writer = choice.choice(writers)
    first, second = sorted(choice.sample(range(OWN_KEYS), 2))
    low, high = sorted(choice.sample(range(COLORS), 2))
    return choice.choice(
        [
            (ALL, None),
            (Range(f"/{writer}/", f"/{writer}/~"), None),
            (Range(f"/{writer}/k{first:02d}", f"/{writer}/k{second:02d}"), None),
            (children_of("/shared"), None),
            (exactly(f"/shared/k{choice.randrange(SHARED_KEYS):02d}"), None),
            (Range("/shared/p/", ""), None),
            (Range(f"/{writer}/many/", f"/{writer}/many/~"), None),
            (Range(f"/{writer}/p/", f"/{writer}/p//"), None),
            (exactly("/nobody"), None),
            (ALL, INDEX),
            (exactly(f"{low}"), INDEX),
            (Range(f"{low}", f"{high}"), INDEX),
            (ALL, OTHER_INDEX),
        ]
    )
