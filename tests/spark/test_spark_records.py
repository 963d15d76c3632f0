"""Records cut out of their bytes by columns say what the engine wrote, record by record."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.keys import key_order
from metastore.engine.record import (
    HAS_EXTRAS,
    HEADER,
    NO_EXTRAS,
    Extras,
    encode_entry,
    encode_times,
    encode_version,
    entry_of,
    pack_extras,
)
from metastore.spark.columns import names_of
from metastore.spark.records import Records, records_of, records_of_entries
from metastore.spark.schemas import CHANGES
from metastore.spark.views import levels_below

INT64 = st.integers(0, (1 << 63) - 1)
TIMES = st.integers(0, 1 << 45)


class Written(NamedTuple):
    key: bytes
    value: bytes
    version_id: int
    modifications: int
    created_ms: int
    modified_ms: int
    session: int | None
    extras: Extras

    def blob(self) -> bytes:
        """As the engine stores it."""
        times = encode_times(self.created_ms, self.modified_ms)
        identity = None if self.session is None else b"who"
        version = encode_version(self.version_id, self.modifications, times, self.session, identity)
        extras = b"" if self.extras == NO_EXTRAS else pack_extras(self.extras)
        head = HEADER.pack(HAS_EXTRAS if extras else 0, self.version_id, self.modifications, self.created_ms)
        return head + extras + encode_entry(version, self.value, self.key)


WRITTEN = st.builds(
    Written,
    st.text(max_size=200).map(str.encode),
    st.one_of(st.binary(max_size=300), st.integers(0, 40_000).map(bytes)),
    INT64,
    INT64,
    TIMES,
    TIMES,
    st.none() | INT64,
    st.sampled_from([NO_EXTRAS, Extras(7, b"partition", b""), Extras(None, None, bytes(300))]),
)


def told(records: Records) -> list[tuple[object, ...]]:
    """What the columns say, as rows."""
    return list(
        zip(
            records.keys.to_pylist(),
            records.values.to_pylist(),
            records.version_ids.tolist(),
            records.modifications.tolist(),
            records.created_ms.tolist(),
            records.modified_ms.tolist(),
            records.sessions.to_pylist(),
            strict=True,
        )
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(WRITTEN, min_size=1, max_size=8))
def test_columns_are_what_was_written(written: list[Written]) -> None:
    expected = [tuple(each[:7]) for each in written]
    assert told(records_of([each.blob() for each in written], 0)) == expected
    assert told(records_of_entries([entry_of(each.blob()) for each in written], 0)) == expected


def test_no_records_have_empty_columns() -> None:
    assert told(records_of_entries([], 0)) == []


def test_names_of_a_schema_with_nested_types() -> None:
    assert names_of(CHANGES)[:3] == ["change", "offset", "time"]
    assert names_of("a ARRAY<STRUCT<x: INT, y: INT>>, b DECIMAL(10, 2), `c d` INT")[:2] == ["a", "b"]


@pytest.mark.parametrize("sorting", ["hierarchical", "natural"])
def test_levels_below_finds_all_of_a_level_and_little_else(sorting: str) -> None:
    order = key_order(sorting)
    found = levels_below("/txn-op", 2, sorting)
    low, high = order.encode(found.start.encode()), order.encode(found.end.encode())

    def is_in(key: str) -> bool:
        return low <= order.encode(key.encode()) < high

    assert all(map(is_in, ["/txn-op/a/b", "/txn-op/~/~", "/txn-op/é/é", "/txn-op//b"]))
    others = ["/txn-op", "/txn-oq/a/b", "/txn-op0/a/b", "/txn/a/b", "/txn-oq!/a/b"]
    others += ["/txn-op/a", "/txn-op/a/b/c"] if sorting == "hierarchical" else []
    assert not any(map(is_in, others))
