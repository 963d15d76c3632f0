"""Entries as they go to consumers and readers, put together in responses of a bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.broker.limits import BrokerLimits
from controller.broker.messages import position_message
from controller.pb import broker_pb2 as pb
from txn.model.position import Position
from txn.segment.cursor import BatchBits
from txn.segment.entry import Entry

DELIVERY_BYTES = 100
"""What an entry takes beside its payload, roughly; for the bound of a response, not for its length."""


def delivery_message(
    position: Position,
    entry: Entry,
    redeliveries: int = 0,
    acknowledged: BatchBits | None = None,
    epoch: int = 0,
    era: int = 0,
) -> pb.Delivery:
    """An entry for a consumer or a reader."""
    return pb.Delivery(
        position=position_message(position),
        payload=entry.payload,
        properties=_properties(entry.properties) if entry.properties else None,
        producer=entry.producer,
        sequence_id=entry.sequence_id,
        message_count=entry.message_count,
        published_ms=entry.published_ms,
        txn_id="" if entry.txn_id is None else str(entry.txn_id),
        redeliveries=redeliveries,
        acknowledged=b"" if acknowledged is None else bits_as_bytes(acknowledged),
        epoch=epoch,
        compression=pb.Compression.ValueType(entry.compression),
        uncompressed_bytes=entry.uncompressed_bytes,
        deliver_at_ms=entry.deliver_at_ms,
        is_batch=entry.is_batch,
        era=era,
    )


def _properties(properties: Mapping[str, str]) -> list[pb.Property]:
    return [pb.Property(name=name, value=value) for name, value in properties.items()]


def bits_as_bytes(acknowledged: BatchBits) -> bytes:
    """Bit n % 8 of byte n / 8 is message n."""
    return acknowledged.bits.to_bytes((acknowledged.size + 7) // 8, "little")


def in_responses(deliveries: Iterable[pb.Delivery], limits: BrokerLimits) -> Iterator[pb.Deliveries]:
    """All of them, in as few responses as the bound allows."""
    group: list[pb.Delivery] = []
    size = 0
    for each in deliveries:
        more = len(each.payload) + DELIVERY_BYTES
        if group and (size + more > limits.response_bytes_max or len(group) >= limits.deliveries_per_response_max):
            yield pb.Deliveries(deliveries=group)
            group, size = [], 0
        group.append(each)
        size += more
    if group:
        yield pb.Deliveries(deliveries=group)
