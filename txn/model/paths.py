"""Keys, partitions and indexes of the records.

All records of a transaction are in the partition of its id: one shard decides their order, and a transaction's
operations are listed by asking that shard alone. What belongs to a segment is in the partition of the segment.

Every part of a key that users name is escaped (percent signs), so that no name runs into another: `exactly` of a
secondary key finds the segment `s` and not the segment `s-1`. A sequence stands behind a slash for the same reason.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote

from metastore.interface import Range, children_of
from txn.model.ids import TxnId
from txn.model.position import Position

HEADERS = "/txn"
OPERATIONS = "/txn-op"
APPLIED = "/txn-applied"
SEGMENTS = "/segments"
OWNERS = "/segment-owners"

WRITES_BY_SEGMENT = "writes-by-segment"
ACKS_BY_SUBSCRIPTION = "acks-by-segment-subscription"
BY_DEADLINE = "txn-by-deadline"
BY_FINAL_STATE = "txn-by-final-state"
ABORTED_BY_POSITION = "txn-aborted-by-position"
SEGMENTS_BY_NAME = "segments-by-name"

NAMES_KEPT = 4096
"""Of escaped names, in memory."""


@lru_cache(NAMES_KEPT)
def escaped(name: str) -> str:
    """A name as a part of a key: no slash, no colon, nothing that could end the part.

    Every operation asks for that of its segment, so the last ones are remembered.
    """
    return quote(name, safe="")


def padded(number: int) -> str:
    """A number whose texts sort as the numbers do."""
    assert 0 <= number < 10**20, f"{number} does not fit into 20 digits"
    return f"{number:020}"


def header_key(txn_id: TxnId) -> str:
    """The key of a transaction's header."""
    return f"{HEADERS}/{txn_id}"


def operations_path(txn_id: TxnId) -> str:
    """The path below which a transaction's operations are."""
    return f"{OPERATIONS}/{txn_id}"


def operation_sequence(txn_id: TxnId) -> str:
    """The sequence that gives a transaction's operations their keys."""
    return operations_path(txn_id) + "/"


def partition(txn_id: TxnId) -> str:
    """The partition key of all records of a transaction."""
    return str(txn_id)


def txn_id_of_key(key: str) -> TxnId:
    """The transaction that a header or an operation belongs to."""
    return TxnId.parse(key.split("/")[2])


def subscription_key(segment: str, subscription: str) -> str:
    """The secondary key of acknowledgements."""
    return f"{escaped(segment)}:{escaped(subscription)}"


def deadline_key(deadline_ms: int) -> str:
    """The secondary key of an open transaction."""
    return padded(deadline_ms)


def final_state_key(state: str, finalized_ms: int) -> str:
    """The secondary key of a decided transaction."""
    return f"{state}:{padded(finalized_ms)}"


def applied_path(txn_id: TxnId) -> str:
    """The path below which participants say that they have carried a transaction's outcome out."""
    return f"{APPLIED}/{txn_id}"


def applied_key(txn_id: TxnId, segment: str, subscription: str | None = None) -> str:
    """Where a participant says so: a segment's writes, or the acknowledgements of a subscription."""
    name = escaped(segment) if subscription is None else subscription_key(segment, subscription)
    return f"{applied_path(txn_id)}/{name}"


def segment_path(segment: str) -> str:
    """The path below which everything of a segment is but its owner's grant, in the partition of the segment's name."""
    return f"{SEGMENTS}/{escaped(segment)}"


def aborted_path(segment: str) -> str:
    """The path below which a segment's aborted transactions are."""
    return f"{segment_path(segment)}/aborted"


def aborted_key(segment: str, txn_id: TxnId) -> str:
    """Where it says that entries of a transaction are skipped."""
    return f"{aborted_path(segment)}/{txn_id}"


def txn_id_of_aborted_key(key: str) -> TxnId:
    """The transaction whose entries are skipped."""
    return TxnId.parse(key.rpartition("/")[2])


def aborted_position_key(segment: str, position: Position) -> str:
    """The secondary key of an aborted transaction, by its last entry; as a bound, behind all that end earlier."""
    return f"{escaped(segment)}:{padded(position.ledger)}:{padded(position.entry)}"


def producers_key(segment: str) -> str:
    """Where it is kept which messages of which producers a segment has: a guarded record."""
    return f"{segment_path(segment)}/producers"


def claim_key(segment: str) -> str:
    """Where it is kept who may produce, if not everybody may: a guarded record."""
    return f"{segment_path(segment)}/claim"


def descriptor_key(segment: str) -> str:
    """The record that is there from a segment's creation to its deletion."""
    return f"{segment_path(segment)}/descriptor"


def owner_key(segment: str) -> str:
    """The grant of whoever owns a segment, in the segment's partition; beside each other, so that all are one range."""
    return f"{OWNERS}/{escaped(segment)}"


def owned_segment(key: str) -> str:
    """The segment whose owner's grant has this key."""
    return unquote(key.removeprefix(f"{OWNERS}/"))


def below(path: str, key_sorting: str) -> Range:
    """The range of a path's children, whatever they are called; in the natural order theirs are among them."""
    # In the natural order `0` is the byte behind the slash: the children of a path lie among its grandchildren.
    return children_of(path) if key_sorting == "hierarchical" else Range(f"{path}/", f"{path}0")


def subscriptions_of(segment: str) -> Range:
    """The range of the secondary keys of acknowledgements in a segment, whatever the subscription."""
    # `;` is the byte behind the colon.
    return Range(f"{escaped(segment)}:", f"{escaped(segment)};")


def cursors_path(segment: str) -> str:
    """The path below which the cursors of a segment's subscriptions are."""
    return f"{segment_path(segment)}/cursors"


def cursor_key(segment: str, subscription: str) -> str:
    """Where it is kept what a subscription has acknowledged: a guarded record."""
    return f"{cursors_path(segment)}/{escaped(subscription)}"


def subscription_of_cursor_key(key: str) -> str:
    """The subscription whose cursor has this key."""
    return unquote(key.rpartition("/")[2])
