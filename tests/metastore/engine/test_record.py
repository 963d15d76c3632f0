"""Records joined from tables are the same bytes as those that are encoded field by field."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.record import (
    CREATED_START,
    HAS_EXTRAS,
    HEADER,
    HEADER_SIZE,
    NO_EXTRAS,
    Extras,
    encode_entry,
    encode_record,
    encode_times,
    encode_version,
    extras_of,
    fixed64,
    pack_extras,
    pack_index_extras,
    pack_indexes,
)

BUDGET = settings(max_examples=300, deadline=None, database=None, derandomize=True)

# On both sides of where a varint gets another byte, and of where the tables end.
NUMBERS = st.sampled_from([0, 1, 127, 128, 4_095, 4_096, 16_383, 16_384, 2_097_151, 2_097_152, 1 << 40])
SIZES = st.sampled_from([0, 1, 126, 127, 128, 129, 3_900, 4_000, 4_031, 4_032, 4_096, 16_384, 70_000])
TIMES = st.integers(0, 1 << 45)
PAIRS = st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=200)), min_size=1, max_size=3)


@BUDGET
@given(
    NUMBERS | st.sampled_from([-1, -(1 << 63), (1 << 63) - 1]),
    NUMBERS | st.just(-5),
    st.tuples(TIMES, TIMES),
    st.tuples(SIZES, SIZES),
    st.none() | PAIRS,
)
def test_a_record_from_tables(
    version_id: int,
    modifications: int,
    times: tuple[int, int],
    sizes: tuple[int, int],
    pairs: list[tuple[bytes, bytes]] | None,
) -> None:
    value, key = b"v" * sizes[0], b"k" * sizes[1]
    packed = b"" if pairs is None else pack_index_extras(tuple(pairs))
    version, record = encode_record(version_id, modifications, fixed64(times[0]), fixed64(times[1]), packed, value, key)
    assert version == encode_version(version_id, modifications, encode_times(*times), None, None)
    header = HEADER.pack(HAS_EXTRAS if packed else 0, version_id, modifications, times[0])
    assert record == header + packed + encode_entry(version, value, key)
    assert record[CREATED_START:HEADER_SIZE] == fixed64(times[0])


@BUDGET
@given(PAIRS)
def test_extras_of_index_entries_alone(pairs: list[tuple[bytes, bytes]]) -> None:
    extras = Extras(None, None, pack_indexes(tuple(pairs)))
    packed = pack_index_extras(tuple(pairs))
    assert packed == pack_extras(extras)
    assert extras_of(HEADER.pack(HAS_EXTRAS, 1, 0, 0) + packed) == extras


@BUDGET
@given(st.sampled_from([None, 1, 1 << 62]), st.none() | st.binary(max_size=9), st.just([]) | PAIRS)
def test_extras_are_read_as_they_were_packed(
    session_id: int | None, partition: bytes | None, pairs: list[tuple[bytes, bytes]]
) -> None:
    extras = Extras(session_id, partition, pack_indexes(tuple(pairs)))
    flags = 0 if extras == NO_EXTRAS else HAS_EXTRAS
    record = HEADER.pack(flags, 1, 0, 0) + (pack_extras(extras) if flags else b"") + b"\n\0"
    assert extras_of(record) == extras
