"""Several messages in one entry: putting them together, taking them apart. Pure.

The format is that of proto/controller/pb/batch.proto. An entry of one message is that message, and has no format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from controller.client.values import Message, MessageId, position_of
from controller.pb import broker_pb2 as pb
from controller.pb.batch_pb2 import Batch, BatchedMessage
from txn.model.ids import TxnId

MAGIC = b"TMB\x01"
MESSAGE_OVERHEAD_BYTES = 16
"""What a message takes in a batch beside its payload and properties; estimated from above."""


class Content(NamedTuple):
    """What an application sends."""

    payload: bytes
    properties: Mapping[str, str]

    @property
    def size_bytes(self) -> int:
        """What it takes on its way, estimated from above."""
        pairs = sum(len(name) + len(value) for name, value in self.properties.items())
        return MESSAGE_OVERHEAD_BYTES * (1 + len(self.properties)) + len(self.payload) + 4 * pairs


def pack(messages: Sequence[Content]) -> tuple[bytes, list[pb.Property]]:
    """Payload and properties of an entry with these messages."""
    if len(messages) == 1:
        only = messages[0]
        return only.payload, [pb.Property(name=name, value=value) for name, value in only.properties.items()]
    batch = Batch(messages=[BatchedMessage(payload=each.payload, properties=each.properties) for each in messages])
    return MAGIC + batch.SerializeToString(), []


def unpack(segment: str, delivery: pb.Delivery) -> list[Message]:
    """The messages of an entry, without those that are acknowledged already.

    A batch that is not of our making is handed on as it is, as one message: its owner knows what to do with it.
    """
    contents, is_ours = _contents(delivery)
    position = position_of(delivery.position)
    txn_id = TxnId.parse(delivery.txn_id) if delivery.txn_id else None
    return [
        Message(
            payload,
            MessageId(position, index),
            segment,
            properties,
            delivery.producer,
            delivery.sequence_id + index,
            delivery.published_ms,
            txn_id,
            delivery.redeliveries,
            len(contents),
        )
        for index, (payload, properties) in enumerate(contents)
        if not (is_ours and _has_bit(delivery.acknowledged, index))
    ]


def _contents(delivery: pb.Delivery) -> tuple[list[Content], bool]:
    whole = Content(delivery.payload, {each.name: each.value for each in delivery.properties})
    if delivery.message_count <= 1 or not delivery.payload.startswith(MAGIC):
        return [whole], False
    try:
        batch = Batch.FromString(delivery.payload[len(MAGIC) :])
    except DecodeError:
        return [whole], False
    if len(batch.messages) != delivery.message_count:
        return [whole], False
    return [Content(each.payload, dict(each.properties)) for each in batch.messages], True


def _has_bit(bits: bytes, index: int) -> bool:
    return index // 8 < len(bits) and bool(bits[index // 8] >> index % 8 & 1)
