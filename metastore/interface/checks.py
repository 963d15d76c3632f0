"""What every provider checks before it does anything: bad input gets the same error from all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metastore.interface.errors import InvalidRequest, LimitExceeded
from metastore.interface.values import ABSENT, Condition, Delete, Index, Operation, Put, Range

KEY_BYTES_MAX = 64 << 10
"""Keys, partition keys, index names, secondary keys, identities."""
VALUE_BYTES_MAX = 64 << 20
VERSION_ID_MAX = (1 << 63) - 1
INDEXES_MAX = 1_000
"""Secondary index entries of one record."""
SEQUENCE_PARTS_MAX = 32
SEQUENCE_PART_BYTES = 21
"""What each number adds to a key: a dash and its digits."""
SEQUENCE_DELTA_MAX = (1 << 64) - 1
TRANSACTION_OPERATIONS_MAX = 10_000
"""Operations and conditions of one transaction, together."""
TRANSACTION_BYTES_MAX = 64 << 20
"""Keys and values of one transaction, together."""
SESSION_TIMEOUT_MS_MIN = 2_000
SESSION_TIMEOUT_MS_MAX = 300_000

_SHOWN_CHARACTERS = 80


def shown(text: str) -> str:
    """A key as a message shows it: quoted, and not at any length."""
    return repr(text) if len(text) <= _SHOWN_CHARACTERS else repr(text[:_SHOWN_CHARACTERS]) + "…"


def check_text(what: str, text: str) -> int:
    """Any key or name: text that UTF-8 can hold, of a bounded length; returns its size in bytes."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{what} must be text, got {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{what} {shown(text)} cannot be written as UTF-8: {error.reason}") from None
    if size > KEY_BYTES_MAX:
        raise LimitExceeded(f"{what} {shown(text)} has {size} bytes: at most {KEY_BYTES_MAX} (KEY_BYTES_MAX)")
    return size


def check_key(key: str, partition_key: str | None = None) -> None:
    """A key, and the partition key that goes with it."""
    check_text("key", key)
    if partition_key is not None:
        check_text("partition key", partition_key)


def check_value(key: str, value: bytes) -> int:
    """A value; returns its size."""
    if not isinstance(value, bytes):
        raise InvalidRequest(f"the value of {shown(key)} must be bytes, got {type(value).__name__}")
    if len(value) > VALUE_BYTES_MAX:
        size = len(value)
        raise LimitExceeded(f"the value of {shown(key)} has {size} bytes: at most {VALUE_BYTES_MAX} (VALUE_BYTES_MAX)")
    return len(value)


def check_expected(key: str, expected: int | None) -> None:
    """The version that an operation is conditional on."""
    if expected is not None and not ABSENT <= expected <= VERSION_ID_MAX:
        raise InvalidRequest(
            f"the expected version of {shown(key)} is {expected}: a version id (up to {VERSION_ID_MAX}), or ABSENT (-1)"
        )


def check_indexes(key: str, indexes: Sequence[Index]) -> int:
    """The secondary index entries of a record; returns their size."""
    if len(indexes) > INDEXES_MAX:
        raise LimitExceeded(f"{shown(key)} has {len(indexes)} index entries: at most {INDEXES_MAX} (INDEXES_MAX)")
    size = 0
    for name, secondary_key in indexes:
        check_index(name)
        size += len(name) + check_text(f"secondary key in index {shown(name)}", secondary_key)
    return size


def check_index(name: str) -> None:
    """An index name."""
    check_text("index name", name)
    if not name:
        raise InvalidRequest("an index needs a name")


def check_put(
    key: str,
    value: bytes,
    expected: int | None,
    partition_key: str | None,
    sequence_deltas: Sequence[int],
    indexes: Sequence[Index],
) -> None:
    """All arguments of a put."""
    check_key(key, partition_key)
    check_value(key, value)
    check_expected(key, expected)
    check_indexes(key, indexes)
    if sequence_deltas:
        check_sequence(key, expected, partition_key, sequence_deltas)


def check_sequence(key: str, expected: int | None, partition_key: str | None, deltas: Sequence[int]) -> None:
    """What a put to a sequence needs beside the rest."""
    if partition_key is None:
        raise InvalidRequest(f"a put to sequence {shown(key)} needs a partition key")
    if expected is not None:
        raise InvalidRequest(f"a put to sequence {shown(key)} makes a new key: it takes no expected version")
    if len(deltas) > SEQUENCE_PARTS_MAX:
        raise LimitExceeded(
            f"sequence {shown(key)} has {len(deltas)} deltas: at most {SEQUENCE_PARTS_MAX} (SEQUENCE_PARTS_MAX)"
        )
    size = len(key.encode()) + len(deltas) * SEQUENCE_PART_BYTES
    if size > KEY_BYTES_MAX:
        raise LimitExceeded(
            f"a key of sequence {shown(key)} would have {size} bytes: at most {KEY_BYTES_MAX} (KEY_BYTES_MAX)"
        )
    if deltas[0] <= 0:
        raise InvalidRequest(f"the first delta of sequence {shown(key)} is {deltas[0]}: it must be greater than 0")
    for delta in deltas:
        if not 0 <= delta <= SEQUENCE_DELTA_MAX:
            raise InvalidRequest(f"a delta of sequence {shown(key)} is {delta}: 0 to {SEQUENCE_DELTA_MAX}")


def check_transaction(
    partition_key: str, operations: Sequence[Operation], conditions: Sequence[Condition], has_session: bool
) -> None:
    """All arguments of `transact`."""
    check_text("partition key", partition_key)
    if not operations:
        raise InvalidRequest("a transaction needs at least one operation")
    count = len(operations) + len(conditions)
    if count > TRANSACTION_OPERATIONS_MAX:
        raise LimitExceeded(
            f"a transaction of {count} operations and conditions: at most {TRANSACTION_OPERATIONS_MAX} "
            "(TRANSACTION_OPERATIONS_MAX)"
        )
    size = sum(_check_condition(condition) for condition in conditions)
    size += sum(_check_operation(operation, partition_key, has_session) for operation in operations)
    check_one_for_each_key([operation.key for operation in operations if not is_numbered(operation)])
    if size > TRANSACTION_BYTES_MAX:
        raise LimitExceeded(f"a transaction of {size} bytes: at most {TRANSACTION_BYTES_MAX} (TRANSACTION_BYTES_MAX)")


def is_numbered(operation: Operation) -> bool:
    """Whether it is a put to a sequence, so that its key is not known yet."""
    return isinstance(operation, Put) and bool(operation.sequence_deltas)


def check_one_for_each_key(keys: Sequence[str]) -> None:
    """That no two operations of a transaction have the same key; asked again when its keys are generated."""
    if len(set(keys)) < len(keys):
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise InvalidRequest(f"a transaction has two operations on {shown(twice)}: one for each key")


def _check_condition(condition: Condition) -> int:
    check_expected(condition.key, condition.version_id)
    return check_text("key", condition.key)


def _check_operation(operation: Operation, partition_key: str, has_session: bool) -> int:
    size = check_text("key", operation.key)
    check_expected(operation.key, operation.expected)
    if isinstance(operation, Delete):
        return size
    assert isinstance(operation, Put)
    if operation.is_ephemeral and not has_session:
        raise InvalidRequest(f"the put of {shown(operation.key)} is ephemeral: the transaction must name a session")
    if operation.sequence_deltas:
        check_sequence(operation.key, operation.expected, partition_key, operation.sequence_deltas)
    return size + check_value(operation.key, operation.value) + check_indexes(operation.key, operation.indexes)


def check_range(range: Range, order: Callable[[str], bytes], what: str = "range") -> None:
    """A range, and that its end does not precede its start; `order` makes keys comparable."""
    check_text(f"start of the {what}", range.start)
    check_text(f"end of the {what}", range.end)
    if range.end and order(range.end) < order(range.start):
        raise InvalidRequest(f"the {what} {range} ends before it starts")


def check_delete_range(range: Range) -> None:
    """What `delete_range` asks of a range beside the rest."""
    if not range.end:
        raise InvalidRequest(f"delete_range of {range} needs an end, so that nobody empties a store by mistake")


def check_session(timeout_ms: int, identity: str) -> None:
    """The arguments of `open_session`."""
    if not SESSION_TIMEOUT_MS_MIN <= timeout_ms <= SESSION_TIMEOUT_MS_MAX:
        raise InvalidRequest(
            f"a session timeout of {timeout_ms} ms: {SESSION_TIMEOUT_MS_MIN} to {SESSION_TIMEOUT_MS_MAX} ms are allowed"
        )
    check_text("session identity", identity)
