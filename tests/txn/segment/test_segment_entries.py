"""Entries: what goes into an envelope comes out, and damage is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txn.model.errors import RecordDamaged
from txn.model.ids import COORDINATORS_MAX, SEQUENCE_MAX, TxnId
from txn.segment.entry import FORMAT, MESSAGES_MAX, PROPERTIES_MAX, SEQUENCE_ID_MAX, VOID, Entry
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
)


@given(entries)
def test_an_entry_is_decoded_as_it_was_encoded(entry: Entry) -> None:
    data = entry.encode()
    decoded = Entry.decode(data)
    assert decoded == entry
    assert list(decoded.properties) == list(entry.properties)
    assert decoded.encode() == data


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
    ],
)
def test_what_is_no_entry_cannot_be_made(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="void|sequence id"):
        Entry(**{"payload": b"", **fields})  # type: ignore[arg-type]


def test_a_batch_ends_at_its_last_message() -> None:
    assert Entry(b"", sequence_id=7).sequence_id_last == 7
    assert Entry(b"", sequence_id=7, message_count=5).sequence_id_last == 11
