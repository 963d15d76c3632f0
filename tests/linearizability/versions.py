"""Version ids across the keys of a shard: no two writes have the same, and later writes have greater ones."""

from __future__ import annotations

from collections.abc import Iterable

from linearizability.operations import Found, Operation, Put, Stored


def wrong_version_ids(history: Iterable[Operation]) -> list[str]:
    """What is wrong with them, in words."""
    operations = [*history]
    return [*ambiguous_ids(operations), *ids_gone_back(operations)]


def ambiguous_ids(operations: Iterable[Operation]) -> list[str]:
    """A version id belongs to one value of one key, whoever writes or reads it."""
    owners: dict[int, tuple[bytes, bytes]] = {}
    wrong = []
    for operation in operations:
        answer, action = operation.answer, operation.action
        if isinstance(answer, Stored) and isinstance(action, Put):
            owner = (operation.key, action.value)
        elif isinstance(answer, Found):
            owner = (operation.key, answer.value)
        else:
            continue
        known = owners.setdefault(answer.version_id, owner)
        if known != owner:
            wrong.append(f"version id {answer.version_id} is that of {known} and of {owner}")
    return wrong


def ids_gone_back(operations: Iterable[Operation]) -> list[str]:
    """A put that begins after another one has returned gets a greater id."""
    moments: list[tuple[int, bool, int]] = []  # calls of a moment come before its returns: those two overlap
    for operation in operations:
        if isinstance(operation.answer, Stored) and operation.returned is not None:
            moments.append((operation.returned, True, operation.answer.version_id))
            moments.append((operation.invoked, False, operation.answer.version_id))
    wrong, greatest = [], -1
    for _, is_return, version_id in sorted(moments):
        if is_return:
            greatest = max(greatest, version_id)
        elif version_id <= greatest:
            wrong.append(f"a put got version id {version_id} after another had returned with {greatest}")
    return wrong
