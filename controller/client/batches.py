"""Messages in an entry: putting them together, taking them apart. Pure.

The format is that of proto/controller/pb/batch.proto. An entry of one message that has nothing but its payload and its
properties is that message, and has no format. An entry that cannot be taken apart is handed on as it is, as one message
which says what is wrong with it: so it can be looked at, and acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from controller.client.compression import Compression, PayloadDamaged, compressed, decompressed
from controller.client.values import Message, MessageId, position_of
from controller.pb import broker_pb2 as pb
from controller.pb.batch_pb2 import Batch, BatchedMessage
from txn.model.ids import TxnId

MAGIC = b"TMB\x01"
MESSAGE_OVERHEAD_BYTES = 40
"""What a message takes in a batch beside its payload, properties and key; estimated from above."""
PROPERTY_OVERHEAD_BYTES = 16


class Content(NamedTuple):
    """What an application sends."""

    payload: bytes
    properties: Mapping[str, str]
    key: str | None = None
    event_ms: int = 0

    @property
    def size_bytes(self) -> int:
        """What it takes on its way, estimated from above."""
        pairs = sum(len(name) + len(value) for name, value in self.properties.items())
        texts = 4 * (pairs + len(self.key or ""))
        return MESSAGE_OVERHEAD_BYTES + PROPERTY_OVERHEAD_BYTES * len(self.properties) + len(self.payload) + texts


def pack(
    contents: Sequence[Content],
    sequence_ids: Sequence[int],
    compression: Compression = Compression.NONE,
    first: int | None = None,
) -> pb.Send:
    """An entry with these messages, which have these numbers, in this order; it takes all numbers from `first` on."""
    only, count = contents[0], len(contents)
    first = sequence_ids[0] if first is None else first
    if count == 1 and only.key is None and not only.event_ms and first == sequence_ids[0]:
        payload = only.payload
        properties = [pb.Property(name=name, value=value) for name, value in only.properties.items()]
        is_batch = False
    else:
        payload = MAGIC + Batch(messages=map(_batched, contents, sequence_ids)).SerializeToString()
        properties, is_batch = [], True
    smaller = compressed(payload, compression)
    return pb.Send(
        sequence_id=first,
        skipped=sequence_ids[-1] - first + 1 - count,
        payload=payload if smaller is None else smaller,
        properties=properties,
        message_count=count,
        compression=pb.UNCOMPRESSED if smaller is None else compression.value,
        uncompressed_bytes=0 if smaller is None else len(payload),
        is_batch=is_batch,
    )


def _batched(content: Content, sequence_id: int) -> BatchedMessage:
    return BatchedMessage(
        payload=content.payload,
        properties=content.properties,
        key=content.key,
        event_ms=content.event_ms,
        sequence_id=sequence_id,
    )


class _Entry(NamedTuple):
    """An entry taken apart."""

    contents: Sequence[Content]
    sequence_ids: Sequence[int]
    is_apart: bool
    """Whether it is known which message is which."""
    damage: str


def unpack(segment: str, delivery: pb.Delivery) -> list[Message]:
    """The messages of an entry, without those that are acknowledged already, or another consumer's."""
    entry = _taken_apart(delivery)
    position = position_of(delivery.position)
    txn_id = TxnId.parse(delivery.txn_id) if delivery.txn_id else None
    return [
        Message(
            content.payload,
            MessageId(position, index),
            segment,
            content.properties,
            delivery.producer,
            entry.sequence_ids[index],
            delivery.published_ms,
            txn_id,
            delivery.redeliveries,
            len(entry.contents),
            content.key,
            content.event_ms,
            delivery.deliver_at_ms,
            entry.damage,
        )
        for index, content in enumerate(entry.contents)
        if not (entry.is_apart and _has_bit(delivery.acknowledged, index))
    ]


def _taken_apart(delivery: pb.Delivery) -> _Entry:
    try:
        payload = decompressed(delivery.payload, delivery.compression, delivery.uncompressed_bytes)
    except PayloadDamaged as error:
        return _whole(delivery, delivery.payload, str(error))
    if not delivery.is_batch and delivery.message_count <= 1:
        return _whole(delivery, payload)
    if not payload.startswith(MAGIC):
        return _whole(delivery, payload, "a batch of another client's making")
    try:
        messages = Batch.FromString(payload[len(MAGIC) :]).messages
    except DecodeError as error:
        return _whole(delivery, payload, f"a batch that cannot be read: {error}")
    if len(messages) != max(1, delivery.message_count):
        return _whole(delivery, payload, f"{len(messages)} messages in a batch of {delivery.message_count}")
    contents = [
        Content(each.payload, dict(each.properties), each.key if each.HasField("key") else None, each.event_ms)
        for each in messages
    ]
    return _Entry(contents, [each.sequence_id for each in messages], True, "")


def _whole(delivery: pb.Delivery, payload: bytes, damage: str = "") -> _Entry:
    content = Content(payload, {each.name: each.value for each in delivery.properties})
    return _Entry([content], [delivery.sequence_id], False, damage)


def _has_bit(bits: bytes, index: int) -> bool:
    return index // 8 < len(bits) and bool(bits[index // 8] >> index % 8 & 1)
