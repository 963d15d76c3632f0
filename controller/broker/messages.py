"""Values into messages and back. What a message says that cannot be is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from controller.broker.limits import BrokerLimits
from controller.errors import InvalidRequest
from controller.pb import broker_pb2 as pb
from txn.model.header import Header, TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import BATCH_SIZE_MAX, Ack
from txn.segment.entry import Entry, pack_hashes
from txn.segment.subscription import BUCKETS_MAX, Assigned, InitialPosition, Nack

STATES = {TxnState.OPEN: pb.OPEN, TxnState.COMMITTED: pb.COMMITTED, TxnState.ABORTED: pb.ABORTED}
EDGES = {pb.EARLIEST: InitialPosition.EARLIEST, pb.LATEST: InitialPosition.LATEST}
TXN_IDS_REMEMBERED_MAX = 1_024
"""Texts of transaction ids that need not be read again: a producer's next message is mostly of the same one."""
NUMBER_MAX = (1 << 63) - 1
"""Of a ledger or an entry."""
HASH_MAX = (1 << 16) - 1
"""Of the lower half of a key's hash."""


def checked_name(what: str, name: str, limits: BrokerLimits) -> str:
    """A name of something, if it may be one."""
    size = len(name.encode())
    if not 1 <= size <= limits.name_bytes_max:
        raise InvalidRequest(
            f"the name of a {what} has {size} bytes: 1 to {limits.name_bytes_max} are allowed (name_bytes_max)"
        )
    return name


def checked_count(what: str, count: int, most: int, limit: str) -> int:
    """A number of things in a request, if it may have so many."""
    if count > most:
        raise InvalidRequest(f"{count} {what} in a request: at most {most} ({limit})")
    return count


def position_of(message: pb.Position) -> Position:
    """A position."""
    if message.ledger > NUMBER_MAX or message.entry > NUMBER_MAX:
        raise InvalidRequest(f"position {message.ledger}:{message.entry}: numbers up to {NUMBER_MAX} are positions")
    return Position(message.ledger, message.entry)


def position_message(position: Position) -> pb.Position:
    """A position as a message."""
    return pb.Position(ledger=position.ledger, entry=position.entry)


def optional_position(position: Position | None) -> pb.Position | None:
    """The same, of what may not be there."""
    return None if position is None else position_message(position)


def start_of(message: pb.Bound) -> InitialPosition | Position:
    """A place between entries."""
    if message.WhichOneof("bound") == "position":
        return position_of(message.position)
    edge = EDGES.get(message.edge)
    if edge is None:
        raise InvalidRequest(f"a bound at edge {message.edge}: EARLIEST and LATEST are known")
    return edge


def bucket_starts_of(buckets: Sequence[pb.Bucket]) -> list[int]:
    """Where the buckets of a key-shared subscription begin; they have to be all there are, without a gap."""
    if not 1 <= len(buckets) <= BUCKETS_MAX:
        raise InvalidRequest(f"{len(buckets)} buckets of a key-shared subscription: 1 to {BUCKETS_MAX} (BUCKETS_MAX)")
    behind = 0
    for bucket in buckets:
        if bucket.start != behind or not bucket.start <= bucket.end <= HASH_MAX:
            raise InvalidRequest(
                f"a bucket from {bucket.start} to {bucket.end}, where one begins at {behind}: buckets are contiguous, "
                f"from 0 to {HASH_MAX}"
            )
        behind = bucket.end + 1
    if behind != HASH_MAX + 1:
        raise InvalidRequest(f"buckets from 0 to {behind - 1}: they go to {HASH_MAX}")
    return [bucket.start for bucket in buckets]


def assigned_of(opening: pb.OpenConsumer) -> Assigned | None:
    """The division of a topic by which a consumer comes, if there is any."""
    return Assigned(opening.assigned.term, opening.assigned.generation) if opening.HasField("assigned") else None


@lru_cache(TXN_IDS_REMEMBERED_MAX)
def txn_id_of(text: str) -> TxnId | None:
    """A transaction, or none."""
    return TxnId.parse(text) if text else None


def ack_of(message: pb.Ack) -> Ack:
    """An acknowledgement."""
    position = position_of(message.position)
    return Ack(position, message.is_cumulative, tuple(message.batch), message.batch_size)


def nack_of(message: pb.Nack) -> Nack:
    """Messages that are given back, by the delivery by which they came."""
    indexes = set(message.batch)
    if any(index >= BATCH_SIZE_MAX for index in indexes):
        raise InvalidRequest(f"message {max(indexes)} of an entry: there are at most {BATCH_SIZE_MAX} (BATCH_SIZE_MAX)")
    bits = sum(1 << index for index in indexes) if indexes else -1
    return Nack(position_of(message.position), bits, message.redeliveries)


def description(txn_id: TxnId, header: Header) -> pb.TransactionDescription:
    """What is known of a transaction."""
    return pb.TransactionDescription(
        txn_id=str(txn_id),
        state=STATES[header.state],
        created_ms=header.created_ms,
        deadline_ms=header.timeout_ms,
        owner=header.owner or "",
        finalized_ms=header.finalized_ms or 0,
        cause="" if header.cause is None else header.cause.value,
    )


def entry_of(send: pb.Send, producer: str, published_ms: int) -> Entry:
    """What a producer sends, as an entry of the log."""
    try:
        return Entry(
            send.payload,
            producer,
            send.sequence_id,
            txn_id_of(send.txn_id),
            published_ms,
            properties_of(send.properties) if send.properties else {},
            send.message_count or 1,
            key_hashes=pack_hashes(send.key_hashes) if send.key_hashes else b"",
            compression=send.compression,
            uncompressed_bytes=send.uncompressed_bytes,
            deliver_at_ms=send.deliver_at_ms,
            is_batch=send.is_batch,
            skipped=send.skipped,
        )
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def properties_of(properties: Iterable[pb.Property]) -> dict[str, str]:
    """Properties by name; each may be there once."""
    found: dict[str, str] = {}
    for each in properties:
        if each.name in found:
            raise InvalidRequest(f"property {each.name[:80]!r} is there twice")
        found[each.name] = each.value
    return found
