"""Checkpoints and where they lead: bytes, text, and what is refused."""

from __future__ import annotations

import struct

import pytest
from consumers_values import message
from hypothesis import given
from hypothesis import strategies as st

from controller.client import EARLIEST, LATEST, InvalidRequest, MessageId, Position
from controller.client.consumers.checkpoints import INDEX_LAST, SEGMENTS_MAX, Checkpoint, behind

NUMBERS = st.integers(0, 1 << 40)
IDS = st.builds(MessageId, st.builds(Position, NUMBERS, NUMBERS), st.integers(0, INDEX_LAST))
POSITIONS = st.dictionaries(st.integers(0, (1 << 63) - 1), st.none() | IDS, max_size=10)


@given(POSITIONS)
def test_bytes_and_text_lead_back(positions: dict[int, MessageId | None]) -> None:
    checkpoint = Checkpoint(positions)
    assert Checkpoint.decode(checkpoint.encode()) == checkpoint
    assert Checkpoint.parse(str(checkpoint)) == checkpoint
    assert hash(Checkpoint.parse(str(checkpoint))) == hash(checkpoint)


def test_the_bytes_are_laid_out_as_pulsar_lays_them_out() -> None:
    checkpoint = Checkpoint({7: MessageId(Position(3, 4), 2), 1: None})
    expected = b"\0" + struct.pack(">i", 2) + struct.pack(">qi", 1, 0) + struct.pack(">qi", 7, 5) + b"3:4/2"
    assert checkpoint.encode() == expected
    assert Checkpoint.at(EARLIEST).encode() == b"\1"
    assert Checkpoint.at(LATEST).encode() == b"\2"
    assert Checkpoint.decode(b"\1").edge is EARLIEST
    assert Checkpoint.decode(b"\2").edge is LATEST


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\3",
        b"\1\0",
        b"\0",
        b"\0" + struct.pack(">i", -1),
        b"\0" + struct.pack(">i", SEGMENTS_MAX + 1),
        b"\0" + struct.pack(">i", 1),
        b"\0" + struct.pack(">i", 1) + struct.pack(">qi", 1, 5) + b"3:4",
        b"\0" + struct.pack(">i", 1) + struct.pack(">qi", -1, 3) + b"3:4",
        b"\0" + struct.pack(">i", 1) + struct.pack(">qi", 1, -1),
        b"\0" + struct.pack(">i", 1) + struct.pack(">qi", 1, 3) + b"3:4" + b"more",
        b"\0" + struct.pack(">i", 1) + struct.pack(">qi", 1, 2) + b"\xff\xff",
        b"\0" + struct.pack(">i", 2) + 2 * (struct.pack(">qi", 1, 3) + b"3:4"),
    ],
)
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        Checkpoint.decode(data)


@given(st.binary(max_size=60))
def test_whatever_bytes_come_they_are_read_or_refused(data: bytes) -> None:
    try:
        checkpoint = Checkpoint.decode(data)
    except InvalidRequest:
        return
    assert Checkpoint.decode(checkpoint.encode()) == checkpoint


@pytest.mark.parametrize("text", ["?", "AAA", "é", "AA==AA=="])
def test_what_is_no_text_of_one_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Checkpoint.parse(text)


def test_an_end_has_no_positions() -> None:
    with pytest.raises(InvalidRequest, match="not both"):
        Checkpoint({1: None}, EARLIEST)


def test_parts_of_a_group_are_joined_where_each_was_read_farthest() -> None:
    here, there = MessageId(Position(1, 5)), MessageId(Position(1, 9), 1)
    joined = Checkpoint({1: here, 2: None}).joined(Checkpoint({1: there, 3: None}), Checkpoint({2: here, 1: None}))
    assert joined == Checkpoint({1: there, 2: here, 3: None})


def test_behind_the_last_message_of_an_entry_is_behind_the_entry() -> None:
    assert behind(message(4, 2, 3)) == MessageId(Position(1, 4), INDEX_LAST)
    assert behind(message(4, 1, 3)) == MessageId(Position(1, 4), 1)
    assert behind(message(4)) == MessageId(Position(1, 4), INDEX_LAST)
