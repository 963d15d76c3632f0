"""The search for an order of one key's operations in which a register would have answered as recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from linearizability.operations import Operation
from linearizability.register import Impossible, State, after

MAX_CONFIGURATIONS = 500_000


class SearchTooLarge(Exception):
    """There are more configurations than the bound allows: neither yes nor no."""


@dataclass(frozen=True)
class Configuration:
    """Which operations have happened, and what the register holds.

    Of the operations with answers, in the order of their calls, the first `prefix` have all happened; `beyond`
    says (as bits, from there on) which more, and `unanswered` which of those without an answer.
    """

    prefix: int
    beyond: int
    unanswered: int
    state: State

    @property
    def happened(self) -> int:
        return self.prefix + self.beyond.bit_count()


@dataclass(frozen=True)
class Result:
    """Whether there is an order; and the order found, or else a longest one that could not go on."""

    linearizable: bool
    order: Sequence[Operation]
    state: State
    remaining: Sequence[Operation]


class Search:
    """One search over the operations of one key, beginning without a record."""

    def __init__(self, operations: Sequence[Operation], max_configurations: int = MAX_CONFIGURATIONS) -> None:
        assert len({operation.key for operation in operations}) <= 1, "keys are searched one by one"
        ordered = sorted(operations, key=lambda operation: operation.invoked)
        self.answered = [operation for operation in ordered if operation.returned is not None]
        self.unanswered = [operation for operation in ordered if operation.returned is None]
        self.max_configurations = max_configurations
        self.came_from: dict[Configuration, tuple[Configuration, Operation] | None] = {}

    def run(self) -> Result:
        start = Configuration(0, 0, 0, None)
        self.came_from[start] = None
        waiting, deepest = [start], start
        while waiting:
            current = waiting.pop()
            deepest = max(deepest, current, key=lambda configuration: configuration.happened)
            if current.prefix == len(self.answered):
                return self._result(current)
            if len(self.came_from) > self.max_configurations:
                raise SearchTooLarge(f"more than {self.max_configurations} configurations")
            # What returned first is tried first: it comes last on the stack.
            for operation, following in reversed([*self._following(current)]):
                if following not in self.came_from:
                    self.came_from[following] = (current, operation)
                    waiting.append(following)
        return self._result(deepest)

    def _following(self, current: Configuration) -> Iterator[tuple[Operation, Configuration]]:
        """The operations that may happen next: none of the others returned before their call."""
        possible, first_return = self._possible(current)
        for position in possible:
            operation = self.answered[position]
            try:
                state = after(current.state, operation.action, operation.answer)
            except Impossible:
                continue
            prefix, beyond = current.prefix, current.beyond | 1 << (position - current.prefix)
            while beyond & 1:
                prefix, beyond = prefix + 1, beyond >> 1
            yield operation, Configuration(prefix, beyond, current.unanswered, state)
        for position, operation in enumerate(self.unanswered):
            if operation.invoked > first_return:
                break
            if current.unanswered >> position & 1:
                continue
            try:
                state = after(current.state, operation.action, None)
            except Impossible:
                continue
            if state != current.state:  # otherwise it may as well never happen
                happened = current.unanswered | 1 << position
                yield operation, Configuration(current.prefix, current.beyond, happened, state)

    def _possible(self, current: Configuration) -> tuple[Sequence[int], int]:
        """The positions of the answered operations that may be next, by return; and the first return."""
        possible: list[int] = []
        first_return: int | None = None
        for position in range(current.prefix, len(self.answered)):
            operation = self.answered[position]
            if first_return is not None and operation.invoked > first_return:
                break
            if not current.beyond >> (position - current.prefix) & 1:
                assert operation.returned is not None
                possible.append(position)
                first_return = operation.returned if first_return is None else min(first_return, operation.returned)
        assert first_return is not None, "something has not happened yet"
        return sorted(possible, key=lambda position: self.answered[position].returned or 0), first_return

    def _result(self, end: Configuration) -> Result:
        order: list[Operation] = []
        step = self.came_from[end]
        while step is not None:
            previous, operation = step
            order.append(operation)
            step = self.came_from[previous]
        remaining = [
            operation
            for position, operation in enumerate(self.answered[end.prefix :])
            if not end.beyond >> position & 1
        ]
        return Result(not remaining, order[::-1], end.state, remaining)
