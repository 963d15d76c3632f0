"""What waits to be sent to a shard, and how it is cut into requests. Pure: no I/O, no waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from metastore.interface.checks import shown


class Kind(Enum):
    """What an operation does."""

    PUT = "put"
    DELETE = "delete"
    DELETE_RANGE = "delete range"
    GET = "get"


class Operation:
    """One operation of one caller, on its way."""

    __slots__ = ("deadline_s", "encoded", "future", "is_alone", "is_exclusive", "key", "kind")

    def __init__(
        self, kind: Kind, key: str, encoded: bytes, future: asyncio.Future[Any], is_exclusive: bool = False
    ) -> None:
        self.kind = kind
        self.key = key
        self.encoded = encoded
        """An entry of the request's list, with its tag and length."""
        self.future = future
        """Gets the answer as a message. Cancelled when the caller is."""
        self.deadline_s = 0.0
        self.is_exclusive = is_exclusive
        """Nothing else may be under way with its request: if the server refuses that, it is the only one in doubt."""
        self.is_alone = False
        """Goes in a request of its own, because one with others was refused."""

    @property
    def what(self) -> str:
        """For messages."""
        return f"{self.kind.value} {shown(self.key)}"


@dataclass(frozen=True, slots=True)
class Batch:
    """Operations that go in one request."""

    operations: list[Operation]

    @property
    def is_exclusive(self) -> bool:
        """Whether it must be under way by itself."""
        return self.operations[0].is_alone or any(operation.is_exclusive for operation in self.operations)

    def encode(self, head: bytes = b"") -> bytes:
        """The request; fields that are not operations come first."""
        return head + b"".join([operation.encoded for operation in self.operations])


class Backlog:
    """Operations in the order in which they came. `on_drop` gets those whose callers have gone."""

    def __init__(self, operations_max: int, bytes_max: int, on_drop: Callable[[Operation], None]) -> None:
        self._operations_max = operations_max
        self._bytes_max = bytes_max
        self._on_drop = on_drop
        self._waiting: deque[Operation] = deque()
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, operation: Operation) -> None:
        """The last one to be sent."""
        self._waiting.append(operation)
        self._size_bytes += len(operation.encoded)

    def put_back(self, operations: Sequence[Operation]) -> None:
        """The first ones to be sent, in this order."""
        for operation in reversed(operations):
            self._waiting.appendleft(operation)
            self._size_bytes += len(operation.encoded)

    @property
    def fills_a_batch(self) -> bool:
        """Whether there is so much that more company would not fit into the same request."""
        return len(self._waiting) >= self._operations_max or self._size_bytes >= self._bytes_max

    def take(self, may_be_exclusive: bool = True) -> Batch | None:
        """What goes into the next request; None if nothing waits, or only what must be under way by itself."""
        taken: list[Operation] = []
        deleted: set[str] = set()
        size = 0
        while self._waiting:
            operation = self._waiting[0]
            if operation.future.done():
                self._on_drop(self._pop())
                continue
            if taken and not self._fits(operation, taken, size, deleted):
                break
            if not may_be_exclusive and (operation.is_exclusive or operation.is_alone):
                break
            size += len(operation.encoded)
            taken.append(self._pop())
            if operation.kind is Kind.DELETE:
                deleted.add(operation.key)
            if operation.is_alone:
                break
        return Batch(taken) if taken else None

    def _fits(self, operation: Operation, taken: list[Operation], size: int, deleted: set[str]) -> bool:
        """Whether the operation can go with what is taken.

        A server does the puts of a request first, then the deletes, then the ranges. So that a caller's operations
        on a key take effect in the order in which it began them, a put does not join what must precede it.
        """
        if operation.is_alone or len(taken) >= self._operations_max:
            return False
        if size + len(operation.encoded) > self._bytes_max:
            return False
        if taken[-1].kind is Kind.DELETE_RANGE:
            return operation.kind is Kind.DELETE_RANGE
        return operation.kind is not Kind.PUT or operation.key not in deleted

    def expired(self, now_s: float) -> Iterator[Operation]:
        """Takes out those whose time is over. (Those in front are the oldest.)"""
        while self._waiting and (self._waiting[0].future.done() or self._waiting[0].deadline_s <= now_s):
            operation = self._pop()
            if operation.future.done():
                self._on_drop(operation)
            else:
                yield operation

    def empty(self) -> list[Operation]:
        """Takes out all."""
        operations, self._waiting, self._size_bytes = list(self._waiting), deque(), 0
        return operations

    @property
    def oldest_deadline_s(self) -> float | None:
        """When the first of them must be done."""
        return self._waiting[0].deadline_s if self._waiting else None

    def _pop(self) -> Operation:
        operation = self._waiting.popleft()
        self._size_bytes -= len(operation.encoded)
        return operation
