"""What a watch has told of one shard: the range as its reader knows it. Bounded."""

from __future__ import annotations

from collections.abc import KeysView
from dataclasses import dataclass
from typing import NamedTuple

from metastore.interface.errors import LimitExceeded
from metastore.interface.values import Record

MIRROR_RECORDS_MAX = 1_000_000
"""Records of one shard that an emulated watch follows: it keeps the key and the version of each."""
MIRROR_BYTES_MAX = 256 << 20
"""Values of one shard that an emulated watch keeps, to tell them as previous values."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a watch may keep of one shard."""

    records_max: int = MIRROR_RECORDS_MAX
    bytes_max: int = MIRROR_BYTES_MAX

    def check_records(self, records: int, what: str) -> None:
        """LimitExceeded where these are too many."""
        if records > self.records_max:
            raise LimitExceeded(
                f"{what}: it has more than {self.records_max} records (MIRROR_RECORDS_MAX), and on a plain Oxia each "
                "has to be kept in memory: watch smaller ranges"
            )

    def check_bytes(self, size: int, what: str) -> None:
        """LimitExceeded where these are too many."""
        if size > self.bytes_max:
            raise LimitExceeded(
                f"{what}: it has more than {self.bytes_max} bytes of values (MIRROR_BYTES_MAX), and on a plain Oxia "
                "they have to be kept in memory to tell previous values: watch smaller ranges, or without"
            )


BOUNDS = Bounds()


class Known(NamedTuple):
    """A record as the reader of the watch knows it."""

    version_id: int | None
    """None: it is known to exist, and nothing else."""
    is_in: bool
    """In the range. Others are kept only where they may be told as previous ones."""
    record: Record | None
    """Kept only where it may be told as a previous one."""


class Mirror:
    """The known records, by their keys."""

    def __init__(self, what: str, keeps_values: bool, bounds: Bounds = BOUNDS) -> None:
        self._what = what
        self._keeps_values = keeps_values
        self._bounds = bounds
        self._known: dict[str, Known] = {}
        self._bytes = 0

    def get(self, key: str) -> Known | None:
        """What is known of a record; None if there is none."""
        return self._known.get(key)

    def keys(self) -> KeysView[str]:
        """The keys of all that are known."""
        return self._known.keys()

    def put(self, key: str, record: Record, is_in: bool) -> None:
        """It is like this from now on."""
        kept = record if self._keeps_values else None
        self._put(key, Known(record.version.version_id, is_in, kept))

    def put_unknown(self, key: str) -> None:
        """It is known to be in the range, and no more than that."""
        self._put(key, Known(None, True, None))

    def _put(self, key: str, known: Known) -> None:
        self.remove(key)
        self._known[key] = known
        self._bytes += _value_bytes(known)
        self._bounds.check_records(len(self._known), self._what)
        self._bounds.check_bytes(self._bytes, self._what)

    def remove(self, key: str) -> None:
        """There is no such record from now on."""
        known = self._known.pop(key, None)
        if known is not None:
            self._bytes -= _value_bytes(known)


def _value_bytes(known: Known) -> int:
    return len(known.record.value or b"") if known.record is not None else 0
