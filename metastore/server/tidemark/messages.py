"""Between the messages of this service's plain calls and the engine's operations. Pure functions.

Stored records are in the form of the wire, so answers are put together from copies of them: a field is its tag, its
length, its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from metastore.engine.errors import ConditionsFailed, FailedCondition
from metastore.engine.index_keys import decode_entry
from metastore.engine.keys import KeyOrder
from metastore.engine.operations import Transaction, WriteResult
from metastore.engine.record import entry_of, read_varint, varint
from metastore.engine.scan import Entry
from metastore.pb import tidemark_pb2
from metastore.server import wire
from metastore.server.errors import invalid, rpc_error

M = TypeVar("M", bound=Message)


def decode(kind: type[M], data: bytes) -> M:
    """A message of that kind."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise invalid(f"not a {kind.DESCRIPTOR.name}: {error}") from None


class TransactionOrder:
    """The operations of a request in its own order; a transaction has them sorted into puts and deletes."""

    def __init__(self, request: tidemark_pb2.TransactRequest) -> None:
        self.transaction = Transaction(conditions=[(each.key, each.version_id) for each in request.conditions])
        self._are_puts: list[bool] = []
        puts: list[int] = []
        deletes: list[int] = []
        expecting = 0
        for number, operation in enumerate(request.operations):
            which = operation.WhichOneof("operation")
            if which is None:
                raise invalid(f"operation {number} of the transaction is neither a put nor a delete")
            self._are_puts.append(which == "put")
            if which == "put":
                self.transaction.puts.append(wire.put_of(operation.put))
                expects, places = operation.put.HasField("expected_version_id"), puts
            else:
                self.transaction.deletes.append(wire.delete_of(operation.delete))
                expects, places = operation.delete.HasField("expected_version_id"), deletes
            if expects:
                places.append(len(self.transaction.conditions) + expecting)
                expecting += 1
        self._places = [*range(len(self.transaction.conditions)), *puts, *deletes]
        """Where in the request the conditions stand, in the transaction's order."""

    def encode_result(self, result: WriteResult) -> bytes:
        """A TransactResponse of what was applied."""
        puts = iter(result.puts)
        return b"".join([_result(*next(puts)) if is_put else b"\n\x00" for is_put in self._are_puts])

    def encode_failed(self, failed: Iterable[FailedCondition]) -> bytes:
        """A TransactResponse of why nothing was."""
        placed = sorted((self._places[place], key, expected, actual) for place, key, expected, actual in failed)
        response = tidemark_pb2.TransactResponse()
        for place, key, expected, actual in placed:
            response.failed.add(place=place, key=key, expected_version_id=expected, actual_version_id=actual)
        return response.SerializeToString()


REFUSALS = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED)
"""Of the codes that a transaction fails with, those that say that nothing was done."""


def encode_answer(order: TransactionOrder, result: WriteResult | None, error: BaseException | None) -> bytes:
    """One answer of a TransactManyResponse, as its field."""
    if isinstance(error, ConditionsFailed):
        return _answer_with(order.encode_failed(error.failed))
    if error is not None:
        known = rpc_error(error)
        return encode_refused() if known is not None and known.code in REFUSALS else b"\n\x00"
    assert result is not None, "it was applied"
    return _answer_with(order.encode_result(result))


def encode_refused() -> bytes:
    """The answer, as its field, that nothing was done."""
    return b"\n\x02\x10\x01"


def _answer_with(response: bytes) -> bytes:
    body = b"\n" + varint(len(response)) + response
    return b"\n" + varint(len(body)) + body


def _result(_: int, version: bytes, new_key: bytes | None) -> bytes:
    body = b"\n" + varint(len(version)) + version
    if new_key is not None:
        body += b"\x12" + varint(len(new_key)) + new_key
    return b"\n" + varint(len(body)) + body


def encode_index_entries(order: KeyOrder, entries: Iterable[Entry]) -> list[bytes]:
    """IndexScanResponse messages."""
    return wire.cut([_index_entry(order, *entry) for entry in entries])


def _index_entry(order: KeyOrder, encoded: bytes, record: bytes | None) -> bytes:
    _, secondary, primary = decode_entry(order, encoded)
    body = b'"' + varint(len(primary)) + primary if record is None else body_of(record)
    body += b"*" + varint(len(secondary)) + secondary
    return b"\n" + varint(len(body)) + body


def body_of(record: bytes) -> bytes:
    """A stored record as a GetResponse with version, value and key."""
    entry = entry_of(record)
    _, start = read_varint(entry, 1)
    return entry[start:]
