"""What needs no broker: ids of messages, and payloads that are not what they say."""

from __future__ import annotations

import zlib

import pytest
import zstandard
from client_api_counter import delivery_of
from hypothesis import given
from hypothesis import strategies as st

from controller.client import Compression, InvalidRequest, Position, ProducerOptions, TopicMessageId
from controller.client.batches import MAGIC, Content, pack, unpack
from controller.client.compression import PayloadDamaged, compressed, decompressed
from controller.pb import broker_pb2 as pb
from txn.segment.entry import UNCOMPRESSED_BYTES_MAX

NUMBERS = st.integers(0, (1 << 63) - 1)
IDS = st.builds(TopicMessageId, NUMBERS, st.builds(Position, NUMBERS, NUMBERS), st.integers(0, 99_999))
COMPRESSIONS = [Compression.ZLIB, Compression.ZSTD]


@given(one=IDS, other=IDS)
def test_ids_are_read_as_they_are_written_and_ordered_as_bytes(one: TopicMessageId, other: TopicMessageId) -> None:
    assert TopicMessageId.parse(str(one)) == one
    assert TopicMessageId.from_bytes(bytes(one)) == one
    assert (bytes(one) < bytes(other)) == (one < other)


@pytest.mark.parametrize("text", ["", "1", "1:2", "1@", "1@2", "01@1:2", "-1@1:2", "1@1:2/", f"{1 << 63}@1:2"])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(InvalidRequest):
        TopicMessageId.parse(text)


@pytest.mark.parametrize("data", [b"", b"\x00" * 27, b"\xff" * 28])
def test_what_are_no_bytes_of_an_id(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        TopicMessageId.from_bytes(data)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(data=st.binary(max_size=2_000), times=st.integers(1, 20))
def test_what_is_compressed_comes_out_again(compression: Compression, data: bytes, times: int) -> None:
    payload = data * times
    smaller = compressed(payload, compression)
    if smaller is not None:
        assert len(smaller) < len(payload)
        assert decompressed(smaller, compression.value, len(payload)) == payload


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_would_not_be_smaller_goes_as_it_is(compression: Compression) -> None:
    assert compressed(b"x", compression) is None
    assert compressed(b"", compression) is None
    send = pack([Content(b"x", {})], [0], compression)
    assert (send.payload, send.compression, send.uncompressed_bytes) == (b"x", pb.UNCOMPRESSED, 0)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_no_more_comes_out_than_was_said(compression: Compression) -> None:
    payload = b"x" * 100_000
    smaller = compressed(payload, compression)
    assert smaller is not None
    for size in (1, 99_999, 100_001, 0, UNCOMPRESSED_BYTES_MAX + 1):
        with pytest.raises(PayloadDamaged):
            decompressed(smaller, compression.value, size)
    for damaged in (smaller[:-5], b"", b"nothing of the kind"):
        with pytest.raises(PayloadDamaged):
            decompressed(damaged, compression.value, len(payload))
    assert compressed(bytes(UNCOMPRESSED_BYTES_MAX + 1), compression) is None


def test_a_bomb_takes_no_memory() -> None:
    bomb = zstandard.ZstdCompressor(level=9).compress(bytes(1 << 26))
    with pytest.raises(PayloadDamaged):
        decompressed(bomb, pb.ZSTD, 1_000)
    with pytest.raises(PayloadDamaged):
        decompressed(zlib.compress(bytes(1 << 26), 9), pb.ZLIB, 1_000)
    wide = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=27))
    with pytest.raises(PayloadDamaged, match="zstd"):
        decompressed(wide.compress(bytes(1 << 26)), pb.ZSTD, 1 << 25)


def test_a_damaged_entry_is_one_message_that_says_so() -> None:
    send = pack([Content(b"one", {}, "k"), Content(b"two", {}, "k", 5)], [3, 9])
    assert (send.sequence_id, send.message_count, send.skipped, send.is_batch) == (3, 2, 5, True)
    assert [(each.sequence_id, each.key, each.event_ms) for each in unpack("s", delivery_of(send))] == [
        (3, "k", 0),
        (9, "k", 5),
    ]
    for payload in (b"?", MAGIC + b"\xff", MAGIC):
        delivery = delivery_of(send)
        delivery.payload = payload
        (message,) = unpack("s", delivery)
        assert (message.payload, message.batch_size, message.sequence_id) == (payload, 1, 3)
        assert message.damage
    delivery = delivery_of(send)
    delivery.compression, delivery.uncompressed_bytes = pb.ZSTD, 10
    (message,) = unpack("s", delivery)
    assert (message.payload, message.damage[:4]) == (send.payload, "zstd")
    delivery.compression = 77  # type: ignore[assignment]
    assert "newer version" in unpack("s", delivery)[0].damage


@pytest.mark.parametrize(
    "options",
    [{"batch_messages_max": 0}, {"batch_messages_max": 10_001}, {"linger_ms": -1}, {"pending_bytes_max": 0}],
)
def test_options_that_cannot_be(options: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        ProducerOptions(**options)  # type: ignore[arg-type]
