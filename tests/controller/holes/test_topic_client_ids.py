"""The bytes of checkpoints and message ids, beside those that Pulsar's client writes (V15).

Of a checkpoint the frame is the same: a byte that says what it is, and behind it segment after segment, each with its
position and how long that is, all big-endian. What differs is said in the tests:

- a position is Pulsar's serialized message id there, and LEDGER:ENTRY/INDEX here: nobody but the broker that gave a
  position understands it, and ours can be read by people. Theirs are refused here by name, not misread;
- of a message id the segment comes first in both, so that ids are ordered by segment and then by place. Theirs goes on
  with the inner id, the position vector, and the names of parent topics, all of it optional and unbounded; ours is
  fixed in length, and sorts as bytes. The vector stays with the consumer that made it.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from controller.client import EARLIEST, LATEST, InvalidRequest, MessageId, Position
from controller.client.consumers.checkpoints import Checkpoint
from controller.client.topics.ids import TopicMessageId
from support.vectors import cases

CHECKPOINTS = [each for each in cases("client-ids") if each["kind"] == "checkpoint"]
IDS = [each for each in cases("client-ids") if each["kind"] == "messageId"]
EDGES = {"EARLIEST": EARLIEST, "LATEST": LATEST}


def of(case: dict[str, Any]) -> Checkpoint:
    """The checkpoint that a case has, with positions as ours."""
    if isinstance(case["positions"], str):
        return Checkpoint.at(EDGES[case["positions"]])
    return Checkpoint({segment: position(text) for segment, _, text in case["positions"]})


def position(text: str) -> MessageId:
    """LEDGER:ENTRY:PARTITION, as Pulsar shows a message id. No segment is partitioned."""
    ledger, entry, partition = map(int, text.split(":"))
    assert partition == -1
    return MessageId(Position(ledger, entry))


def reframed(data: bytes, inner: dict[bytes, bytes]) -> bytes:
    """Pulsar's bytes with the positions replaced."""
    parts, at = [data[:5]], 5
    for _ in range(struct.unpack(">i", data[1:5])[0]):
        segment, length = struct.unpack_from(">qi", data, at)
        text = inner[data[at + 12 : at + 12 + length]]
        parts.append(struct.pack(">qi", segment, len(text)) + text)
        at += 12 + length
    assert at == len(data)
    return b"".join(parts)


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_v15_a_checkpoint_has_the_same_frame(case: dict[str, Any]) -> None:
    data, checkpoint = bytes.fromhex(case["hex"]), of(case)
    assert checkpoint.encode()[:1] == data[:1]
    if isinstance(case["positions"], str):
        assert checkpoint.encode() == data, "an end is that byte alone, in both"
        assert Checkpoint.decode(data) == checkpoint
        return
    inner = {bytes.fromhex(text): str(position(shown)).encode() for _, text, shown in case["positions"]}
    ours = reframed(data, inner)
    assert Checkpoint.decode(ours) == checkpoint
    assert sorted(ours) == sorted(checkpoint.encode()), "ours are sorted by segment, Pulsar's as its map has them"
    if [each[0] for each in case["positions"]] == sorted(each[0] for each in case["positions"]):
        assert checkpoint.encode() == ours


@pytest.mark.parametrize("case", [each for each in CHECKPOINTS if not isinstance(each["positions"], str)])
def test_v15_a_position_of_pulsars_is_refused_and_not_misread(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"])
    if not case["positions"]:
        assert Checkpoint.decode(data) == Checkpoint({}), "none at all is the same in both"
        return
    with pytest.raises(InvalidRequest):
        Checkpoint.decode(data)


@pytest.mark.parametrize("data", [b"", b"\x7f"])
def test_v15_what_pulsar_refuses_is_refused(data: bytes) -> None:
    """Pulsar tells an I/O error; here it is an invalid request."""
    with pytest.raises(InvalidRequest):
        Checkpoint.decode(data)


@pytest.mark.parametrize("case", IDS)
def test_v15_a_message_id_begins_with_its_segment(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"])
    ours = TopicMessageId(case["segment"], Position(1, 2)) if case["segment"] >= 0 else None
    assert struct.unpack(">q", data[:8])[0] == case["segment"]
    if ours is not None:
        assert bytes(ours)[:8] == data[:8]
        assert TopicMessageId.from_bytes(bytes(ours)) == ours
    with pytest.raises(InvalidRequest):
        TopicMessageId.from_bytes(data)


def test_v15_ids_are_ordered_by_segment_first_as_values_and_as_bytes() -> None:
    """As in Pulsar; beyond that the bytes of ours sort like the ids."""
    ids = [
        TopicMessageId(segment, Position(ledger, entry), index)
        for segment in (0, 1, 300)
        for ledger in (1, 256)
        for entry in (0, 255, 256)
        for index in (0, 1)
    ]
    assert ids == sorted(ids) == sorted(ids, key=bytes)


@pytest.mark.parametrize("size", [0, 3, 27, 29])
def test_v15_an_id_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(InvalidRequest):
        TopicMessageId.from_bytes(bytes(size))


def test_v15_ids_are_equal_by_their_place_alone_and_compared_with_nothing_else() -> None:
    """The vector is the consumer's, so that there is none to ignore."""
    one = TopicMessageId(1, Position(2, 3))
    assert one == TopicMessageId(1, Position(2, 3))
    assert hash(one) == hash(TopicMessageId(1, Position(2, 3)))
    assert one != TopicMessageId(2, Position(2, 3))
    with pytest.raises(TypeError):
        assert one < "1:2:3"  # type: ignore[operator]


def test_v15_three_positions_and_none_come_back() -> None:
    three = Checkpoint({segment: MessageId(Position(1, segment)) for segment in (5, 0, 1 << 40)})
    for each in (three, Checkpoint({})):
        assert Checkpoint.decode(each.encode()) == each
        assert Checkpoint.parse(str(each)) == each


def test_v15_a_length_that_cannot_be_is_refused() -> None:
    data = b"\x00" + struct.pack(">iqi", 1, 0, (1 << 31) - 1)
    with pytest.raises(InvalidRequest):
        Checkpoint.decode(data)
