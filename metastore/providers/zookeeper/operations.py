"""The operations of a ZooKeeper transaction, and what they weigh on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What is done to a znode."""

    CHECK = "check"
    CREATE = "create"
    CREATE_EPHEMERAL = "create-ephemeral"
    SET = "set"
    DELETE = "delete"


class Operation(NamedTuple):
    """One of those that ZooKeeper applies all together or not at all."""

    kind: Kind
    path: str
    data: bytes = b""
    version: int = -1
    """The count of changes that the znode must have; -1 for any."""


# A header of 9 bytes before each operation; a length of 4 before each text; a number of 4 behind it.
_OPERATION_BYTES = 9 + 4 + 4
_DATA_BYTES = 4
# world:anyone, all permissions: the count, the permissions, both texts.
_ACCESS_BYTES = 4 + 4 + (4 + 5) + (4 + 6)
_REQUEST_BYTES = 4 + 4 + 9


def bytes_of(operations: Iterable[Operation]) -> int:
    """The size of the request that carries these; paths are ASCII."""
    size = _REQUEST_BYTES
    for operation in operations:
        size += _OPERATION_BYTES + len(operation.path)
        if operation.kind in (Kind.CREATE, Kind.CREATE_EPHEMERAL):
            size += _DATA_BYTES + len(operation.data) + _ACCESS_BYTES
        elif operation.kind is Kind.SET:
            size += _DATA_BYTES + len(operation.data)
    return size
