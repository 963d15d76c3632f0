"""Entries: what goes into an envelope comes out, and damage is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.pb.broker_pb2 import Send
from txn.model.errors import RecordDamaged
from txn.model.ids import COORDINATORS_MAX, SEQUENCE_MAX, TxnId
from txn.segment.entry import (
    COMPRESSION_MAX,
    FORMAT,
    MESSAGES_MAX,
    PROPERTIES_MAX,
    SEQUENCE_ID_MAX,
    TIME_MS_MAX,
    UNCOMPRESSED_BYTES_MAX,
    VOID,
    Entry,
    pack_hashes,
    unpack_hashes,
)
from txn.segment.errors import GroupTooLarge

txn_ids = st.builds(TxnId, st.integers(0, COORDINATORS_MAX - 1), st.integers(0, SEQUENCE_MAX))
entries = st.builds(
    Entry,
    payload=st.binary(max_size=200),
    producer=st.text(max_size=20),
    sequence_id=st.integers(0, SEQUENCE_ID_MAX),
    txn_id=st.none() | txn_ids,
    published_ms=st.integers(0, (1 << 64) - 1),
    properties=st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=4),
    message_count=st.integers(1, MESSAGES_MAX),
    deliver_at_ms=st.integers(0, TIME_MS_MAX),
    is_batch=st.booleans(),
) | st.builds(
    lambda hashes, compression, uncompressed: Entry(
        b"x",
        message_count=len(hashes),
        key_hashes=pack_hashes(hashes),
        compression=compression,
        uncompressed_bytes=uncompressed,
    ),
    st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=50),
    st.integers(1, COMPRESSION_MAX),
    st.integers(1, UNCOMPRESSED_BYTES_MAX),
)


@given(entries)
def test_an_entry_is_decoded_as_it_was_encoded(entry: Entry) -> None:
    data = entry.encode()
    decoded = Entry.decode(data)
    assert decoded == entry
    assert list(decoded.properties) == list(entry.properties)
    assert decoded.encode() == data


@given(st.lists(st.integers(0, (1 << 32) - 1), max_size=50))
def test_hashes_are_packed_as_they_are_on_the_wire(hashes: list[int]) -> None:
    packed = pack_hashes(hashes)
    assert unpack_hashes(packed) == tuple(hashes)
    sent = Send(key_hashes=hashes).SerializeToString()
    assert sent.endswith(packed)


def test_what_an_older_version_wrote_is_read_as_before() -> None:
    data = bytes.fromhex("01afd9f0390a0178120170180722076d645f305f313728d0860332060a016b1201763802")
    assert Entry.decode(data) == Entry(b"x", "p", 7, TxnId(0, 17), 50_000, {"k": "v"}, 2)


def test_void_is_short_and_known_as_such() -> None:
    assert Entry.decode(VOID.encode()) == VOID
    assert VOID.is_void
    assert len(VOID.encode()) < 10


@given(entries, st.data())
def test_damage_is_told(entry: Entry, draw: st.DataObject) -> None:
    data = bytearray(entry.encode())
    place = draw.draw(st.integers(0, len(data) - 1))
    data[place] ^= 1 << draw.draw(st.integers(0, 7))
    with pytest.raises(RecordDamaged):
        Entry.decode(bytes(data))
    with pytest.raises(RecordDamaged):
        Entry.decode(entry.encode()[:place])


def test_a_later_format_is_refused_by_name() -> None:
    data = Entry(b"x").encode()
    with pytest.raises(RecordDamaged, match=f"up to format {FORMAT}"):
        Entry.decode(bytes([FORMAT + 1]) + data[1:])


def test_limits_hold() -> None:
    properties = {str(number): "" for number in range(PROPERTIES_MAX)}
    assert Entry.decode(Entry(b"", properties=properties, message_count=MESSAGES_MAX).encode()).properties == properties
    with pytest.raises(GroupTooLarge, match="MESSAGES_MAX"):
        Entry(b"", message_count=MESSAGES_MAX + 1)
    with pytest.raises(GroupTooLarge, match="PROPERTIES_MAX"):
        Entry(b"", properties={**properties, "one": "more"})
    with pytest.raises(GroupTooLarge, match="UNCOMPRESSED_BYTES_MAX"):
        Entry(b"", compression=1, uncompressed_bytes=UNCOMPRESSED_BYTES_MAX + 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"message_count": 0},
        {"message_count": -1},
        {"is_void": True},
        {"is_void": True, "message_count": 0, "payload": b"x"},
        {"is_void": True, "message_count": 0, "txn_id": TxnId(0, 1)},
        {"sequence_id": -1},
        {"sequence_id": SEQUENCE_ID_MAX + 1},
        {"key_hashes": pack_hashes([1, 2])},
        {"key_hashes": pack_hashes([1]), "message_count": 2},
        {"key_hashes": b"123"},
        {"compression": 1},
        {"uncompressed_bytes": 1},
        {"compression": COMPRESSION_MAX + 1, "uncompressed_bytes": 1},
        {"compression": -1, "uncompressed_bytes": 1},
        {"compression": 1, "uncompressed_bytes": -1},
        {"deliver_at_ms": TIME_MS_MAX + 1},
        {"deliver_at_ms": -1},
    ],
)
def test_what_is_no_entry_cannot_be_made(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="void|sequence id|key hashes|compress|delivered"):
        Entry(**{"payload": b"", **fields})  # type: ignore[arg-type]


def test_a_batch_ends_at_its_last_message() -> None:
    assert Entry(b"", sequence_id=7).sequence_id_last == 7
    assert Entry(b"", sequence_id=7, message_count=5).sequence_id_last == 11
