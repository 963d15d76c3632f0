"""Which answer made a history impossible, and what was going on around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from linearizability.operations import Get, Operation, by_key
from linearizability.register import State
from linearizability.search import MAX_CONFIGURATIONS, Search

SHOWN_BEFORE = 4


@dataclass(frozen=True)
class Violation:
    """Up to the last answer in `window` no order explains a key's answers; without that one, some order did.

    `before` ends the longest order found, `state` is what the register holds after it, and none of `window`
    can come next.
    """

    key: bytes
    before: Sequence[Operation]
    state: State
    window: Sequence[Operation]

    def __str__(self) -> str:
        lines = [f"{self.key!r} is not linearizable; a longest possible order ends with"]
        lines += [f"  {told(operation)}" for operation in self.before]
        lines += [f"and leaves {self.state}; none of these can follow:"]
        lines += [f"  {told(operation)}" for operation in self.window]
        return "\n".join(lines)


def told(operation: Operation) -> str:
    answer = "no answer" if operation.answer is None else str(operation.answer)
    times = f"[{operation.invoked}..{operation.returned}]"
    return f"{times} client {operation.client}: {operation.action} -> {answer}"


def violations(history: Iterable[Operation], max_configurations: int = MAX_CONFIGURATIONS) -> list[Violation]:
    """One for each key whose operations cannot be put in order."""
    found = []
    for operations in by_key(history).values():
        if not Search(operations, max_configurations).run().linearizable:
            found.append(first_violation(operations, max_configurations))
    return found


def first_violation(operations: Sequence[Operation], max_configurations: int) -> Violation:
    """Looks for the earliest answer without an explanation: what follows it cannot give it one."""
    returns = sorted(operation.returned for operation in operations if operation.returned is not None)
    possible, impossible = -1, len(returns) - 1
    while impossible - possible > 1:
        middle = (possible + impossible) // 2
        if Search(known_at(returns[middle], operations), max_configurations).run().linearizable:
            possible = middle
        else:
            impossible = middle
    result = Search(known_at(returns[impossible], operations), max_configurations).run()
    assert not result.linearizable
    window = sorted(result.remaining, key=lambda operation: operation.returned or 0)
    return Violation(operations[0].key, result.order[-SHOWN_BEFORE:], result.state, window)


def known_at(time: int, operations: Iterable[Operation]) -> list[Operation]:
    """What had been called until then; a write whose answer was still to come may have happened or not."""
    known = []
    for operation in operations:
        if operation.returned is not None and operation.returned <= time:
            known.append(operation)
        elif operation.invoked <= time and not isinstance(operation.action, Get):
            known.append(replace(operation, returned=None, answer=None))
    return known
