"""Messages in an entry: putting them together, taking them apart. Pure.

The format is that of proto/controller/pb/batch.proto. An entry of one message that has nothing but its payload and its
properties is that message, and has no format. An entry that cannot be taken apart is handed on as it is, as one message
which says what is wrong with it: so it can be looked at, and acknowledged. Where several consumers share it by keys,
each of them has such a message, which stands for those in the entry that are his, and is known by the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from controller.client.compression import Compression, PayloadDamaged, compressed, decompressed
from controller.client.values import Message, MessageId, Part, position_of
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
        size = MESSAGE_OVERHEAD_BYTES + len(self.payload) + 4 * len(self.key or "")
        if self.properties:
            size += sum(
                PROPERTY_OVERHEAD_BYTES + 4 * (len(each) + len(self.properties[each])) for each in self.properties
            )
        return size


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
    payload, properties, key, event_ms = content
    if not properties:  # an empty map costs as much as all the rest
        return BatchedMessage(payload=payload, key=key, event_ms=event_ms, sequence_id=sequence_id)
    return BatchedMessage(payload=payload, properties=properties, key=key, event_ms=event_ms, sequence_id=sequence_id)


def unpack(segment: str, delivery: pb.Delivery) -> list[Message]:
    """The messages of an entry, without those that are acknowledged already, or another consumer's."""
    batch: Sequence[BatchedMessage] = ()
    payload, damage = delivery.payload, ""
    try:
        payload = decompressed(payload, delivery.compression, delivery.uncompressed_bytes)
        if delivery.is_batch or delivery.message_count > 1:
            batch = _messages_of(payload, max(1, delivery.message_count))
    except PayloadDamaged as error:
        damage = str(error)
    position, acknowledged = position_of(delivery.position), delivery.acknowledged
    producer, published_ms, deliver_at_ms = delivery.producer, delivery.published_ms, delivery.deliver_at_ms
    txn_id = TxnId.parse(delivery.txn_id) if delivery.txn_id else None
    redeliveries, era, count = delivery.redeliveries, delivery.era, len(batch)
    if not batch:
        properties = {each.name: each.value for each in delivery.properties} if delivery.properties else {}
        part = _part(delivery)
        place, number = MessageId(position, part.indexes[0] if part else 0), delivery.sequence_id
        return [
            Message(
                payload,
                place,
                segment,
                properties,
                producer,
                number,
                published_ms,
                txn_id,
                redeliveries,
                deliver_at_ms=deliver_at_ms,
                damage=damage,
                era=era,
                part=part,
            )
        ]
    return [
        Message(
            each.payload,
            MessageId(position, index),
            segment,
            dict(each.properties) if each.properties else {},
            producer,
            each.sequence_id,
            published_ms,
            txn_id,
            redeliveries,
            count,
            each.key if each.HasField("key") else None,
            each.event_ms,
            deliver_at_ms,
            era=era,
        )
        for index, each in (_left(batch, acknowledged) if acknowledged else enumerate(batch))
    ]


def _part(delivery: pb.Delivery) -> Part | None:
    count, acknowledged = delivery.message_count, delivery.acknowledged
    indexes = tuple(_unmasked(count, acknowledged)) if count > 1 else ()
    return Part(count, indexes) if indexes else None


def _messages_of(payload: bytes, count: int) -> Sequence[BatchedMessage]:
    if not payload.startswith(MAGIC):
        raise PayloadDamaged("a batch of another client's making")
    try:
        messages = Batch.FromString(payload[len(MAGIC) :]).messages
    except DecodeError as error:
        raise PayloadDamaged(f"a batch that cannot be read: {error}") from None
    if len(messages) != count:
        raise PayloadDamaged(f"{len(messages)} messages in a batch of {count}")
    return messages


def _left(batch: Sequence[BatchedMessage], acknowledged: bytes) -> Iterator[tuple[int, BatchedMessage]]:
    """Those without their bit: of an entry that several share these are few, and the others are not even looked at."""
    return ((index, batch[index]) for index in _unmasked(len(batch), acknowledged))


def _unmasked(count: int, acknowledged: bytes) -> Iterator[int]:
    bits = f"{int.from_bytes(acknowledged, 'little'):0{count}b}"[::-1]
    return (index for index in range(count) if bits[index] == "0")
