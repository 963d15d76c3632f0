"""What a write may look like: pure checks, made before anything is staged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from metastore.engine import limits
from metastore.engine.errors import InvalidRequest
from metastore.engine.operations import Get, PutOptions, PutResult, Range, Transaction, WriteBatch, is_numbered

SHOWN_BYTES = 60


def shown(data: bytes) -> str:
    """A key as an error message shows it: readable and short."""
    text = data[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return repr(text) if len(data) <= SHOWN_BYTES else f"{text!r}… ({len(data)} bytes)"


def check_text(what: str, data: bytes) -> None:
    """A key or name: UTF-8, and not too long."""
    if len(data) > limits.KEY_BYTES_MAX:
        raise InvalidRequest(f"{what} {shown(data)} is longer than the {limits.KEY_BYTES_MAX} bytes that are allowed")
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{what} {shown(data)} is not UTF-8: byte {error.start} is invalid") from None


def check_batch(batch: WriteBatch) -> None:
    """Refuses a write request that no state of the shard could accept."""
    size = 0
    for key, value, options in batch.puts:
        size += len(key) + len(value)
        if len(key) > limits.KEY_BYTES_MAX or not key.isascii():
            check_text("key", key)
        if len(value) > limits.VALUE_BYTES_MAX:
            raise InvalidRequest(
                f"the value of key {shown(key)} has {len(value)} bytes; {limits.VALUE_BYTES_MAX} are allowed"
            )
        if options is not None:
            _check_options(key, options)
    for key, _ in batch.deletes:
        check_text("key", key)
    for start, end in batch.delete_ranges:
        check_text("range start", start)
        check_text("range end", end)
    if size > limits.REQUEST_BYTES_MAX:
        raise InvalidRequest(f"the write request carries {size} bytes; {limits.REQUEST_BYTES_MAX} are allowed in one")


def check_transaction(transaction: Transaction) -> None:
    """Refuses a transaction that no state of the shard could accept."""
    count = len(transaction.conditions) + len(transaction.puts) + len(transaction.deletes)
    if count > limits.TRANSACTION_OPERATIONS_MAX:
        raise InvalidRequest(
            f"a transaction of {count} operations and conditions; {limits.TRANSACTION_OPERATIONS_MAX} are allowed"
        )
    if not transaction.puts and not transaction.deletes:
        raise InvalidRequest("a transaction needs at least one put or delete")
    check_batch(WriteBatch(transaction.puts, transaction.deletes))
    for key, _ in transaction.conditions:
        check_text("key", key)
    for _, key, expected in transaction.all_conditions():
        if expected < -1:
            raise InvalidRequest(f"the expected version of key {shown(key)} is {expected}: a version id, or -1")
    plain_puts = (put[0] for put in transaction.puts if not is_numbered(put))
    _check_one_for_each_key(chain(plain_puts, (key for key, _ in transaction.deletes)))
    for key, _, options in transaction.puts:
        if options is not None:
            _check_transaction_options(key, options)


def check_final_keys(batch: WriteBatch, results: Sequence[PutResult]) -> None:
    """Refuses a transaction that has another operation on a key that it generated."""
    stored = (new_key or put[0] for put, (_, _, new_key) in zip(batch.puts, results, strict=True))
    _check_one_for_each_key(chain(stored, (key for key, _ in batch.deletes)))


def _check_one_for_each_key(keys: Iterable[bytes]) -> None:
    seen: set[bytes] = set()
    for key in keys:
        if key in seen:
            raise InvalidRequest(f"a transaction has two operations on key {shown(key)}: one for each is allowed")
        seen.add(key)


def _check_transaction_options(key: bytes, options: PutOptions) -> None:
    if options.sequence_key_deltas:
        if options.partition_key is None:
            raise InvalidRequest(f"the put to sequence {shown(key)} needs a partition key")
        if options.expected_version_id is not None:
            raise InvalidRequest(f"the put to sequence {shown(key)} makes a new key: it can expect no version")
    if options.override_version_id is not None or options.override_modifications_count is not None:
        raise InvalidRequest(f"the put of key {shown(key)} sets its own version, which none of a transaction may")


def check_keys(keys: list[bytes]) -> None:
    """Refuses what can be no key."""
    if max(map(len, keys), default=0) > limits.KEY_BYTES_MAX or not b"".join(keys).isascii():
        for key in keys:
            check_text("key", key)


def check_gets(gets: list[Get]) -> None:
    """Refuses gets by what can be no key or name."""
    for key, _, _, index_name in gets:
        if len(key) > limits.KEY_BYTES_MAX or not key.isascii():
            check_text("key", key)
        if index_name is not None:
            check_text("index name", index_name)


def check_range(request: Range) -> None:
    """Refuses a range whose borders can be no keys."""
    check_text("range start", request.start)
    check_text("range end", request.end)
    if request.index_name is not None:
        check_text("index name", request.index_name)


def _check_options(key: bytes, options: PutOptions) -> None:
    if options.client_identity is not None:
        check_text("client identity", options.client_identity)
    if options.partition_key is not None:
        check_text("partition key", options.partition_key)
    if len(options.secondary_indexes) > limits.SECONDARY_INDEXES_MAX:
        raise InvalidRequest(
            f"key {shown(key)} has {len(options.secondary_indexes)} secondary index entries; "
            f"{limits.SECONDARY_INDEXES_MAX} are allowed"
        )
    for name, secondary in options.secondary_indexes:
        is_plain = name.isascii() and secondary.isascii()
        if not is_plain or len(name) + len(secondary) > limits.KEY_BYTES_MAX:
            check_text("index name", name)
            check_text("secondary key", secondary)
    if len(options.sequence_key_deltas) > limits.SEQUENCE_PARTS_MAX:
        raise InvalidRequest(
            f"key {shown(key)} has {len(options.sequence_key_deltas)} sequence deltas; "
            f"{limits.SEQUENCE_PARTS_MAX} are allowed"
        )
