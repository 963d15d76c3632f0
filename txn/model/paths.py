"""Keys, partitions and indexes of the records.

All records of a transaction are in the partition of its id: one shard decides their order, and a transaction's
operations are listed by asking that shard alone. What belongs to a segment is in the partition of the segment.

Every part of a key that users name is escaped (percent signs), so that no name runs into another: `exactly` of a
secondary key finds the segment `s` and not the segment `s-1`. A sequence stands behind a slash for the same reason.
"""

from __future__ import annotations

from urllib.parse import quote

from txn.model.ids import TxnId

HEADERS = "/txn"
OPERATIONS = "/txn-op"

WRITES_BY_SEGMENT = "writes-by-segment"
ACKS_BY_SUBSCRIPTION = "acks-by-segment-subscription"
BY_DEADLINE = "txn-by-deadline"
BY_FINAL_STATE = "txn-by-final-state"


def escaped(name: str) -> str:
    """A name as a part of a key: no slash, no colon, nothing that could end the part."""
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
