"""What a watch asks for: a range of keys or of an index, and where to begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from metastore.engine.errors import InvalidRequest
from metastore.engine.keys import KeyOrder
from metastore.engine.operations import Range
from metastore.engine.scan import open_bounds
from metastore.engine.validate import check_range

NOW = -1
"""As `from_offset`: no snapshot, and the changes from now on."""


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """One watch. Keys as clients know them."""

    start: bytes = b""
    end: bytes = b""
    """Empty: to the last key, or the end of the index."""
    index_name: bytes | None = None
    from_offset: int | None = None
    """The first offset that is wanted, or NOW; None begins with a snapshot."""
    previous_values: bool = False

    @property
    def range(self) -> Range:
        """The range, as scans take it."""
        return Range(self.start, self.end, self.index_name)


class Selector(NamedTuple):
    """What a watch selects, in encoded keys: of records, or of entries of an index."""

    low: bytes
    high: bytes
    by_index: bool
    previous_values: bool


def selector_of(spec: WatchSpec, order: KeyOrder) -> Selector:
    """Raises InvalidRequest for what can be no range."""
    check_range(spec.range)
    if spec.from_offset is not None and spec.from_offset < NOW:
        raise InvalidRequest(f"a watch cannot begin with offset {spec.from_offset}")
    low, high = open_bounds(order, spec.range)
    return Selector(low, high, spec.index_name is not None, spec.previous_values)
