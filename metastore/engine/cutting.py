"""Where a range can be cut into parts of about one size: by what lies on LMDB's pages, so at no cost."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import lmdb

from metastore.engine.change import Table
from metastore.engine.index_keys import decode_entry
from metastore.engine.keys import KeyOrder
from metastore.engine.operations import Range
from metastore.engine.pages import Pages, root_of
from metastore.engine.scan import open_bounds
from metastore.engine.store import TABLE_NAMES

PLACES_PER_CUT = 8
"""Places between pages that are looked at for each cut: so parts differ by about an eighth."""


class Cuts(NamedTuple):
    """Where a range can be cut."""

    keys: list[bytes]
    """In order: each begins a part."""
    entries: int
    """About how many records, or entries of an index, the range has."""


def cuts(environment: lmdb.Environment, order: KeyOrder, request: Range, count: int) -> Cuts:
    """Keys (of an index: secondary keys) that cut a range into `count` parts, or fewer; as clients know them.

    What LMDB does not hold yet is not counted. The entries of one secondary key are never parted.
    """
    low, high = open_bounds(order, request)
    table = Table.RECORDS if request.index_name is None else Table.INDEXES
    with environment.begin() as transaction:
        root = root_of(transaction, TABLE_NAMES[table].encode())
        with Pages(Path(environment.path()), int(environment.stat()["psize"])) as pages:
            found = pages.separators(root, low, high, PLACES_PER_CUT * count)
    places = [key for key in (_client_key(order, key, table) for key in found.keys) if key is not None]
    chosen = (places[number * len(places) // count] for number in range(1, count)) if places else ()
    return Cuts([key for key in dict.fromkeys(chosen) if key != request.start], found.entries)


def _client_key(order: KeyOrder, encoded: bytes, table: Table) -> bytes | None:
    """What clients call the place before an encoded key; None where they cannot name it."""
    if table is Table.INDEXES:
        return decode_entry(order, encoded).secondary
    key = order.decode(encoded)
    return key if order.encode(key) == encoded else None
