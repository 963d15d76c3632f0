"""The writes of the contract, each as a function of what it finds. Pure: they may be tried any number of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from metastore.interface import (
    ABSENT,
    Condition,
    ConditionFailed,
    FailedCondition,
    Index,
    Operation,
    Put,
    PutResult,
    SessionLost,
    UnexpectedVersion,
)
from metastore.interface.checks import check_one_for_each_key, is_numbered, shown
from metastore.providers.zookeeper.head import Sweep
from metastore.providers.zookeeper.layout import Identity, identity_of
from metastore.providers.zookeeper.limits import SWEEP_BYTES_MAX, SWEEP_RECORDS_MAX
from metastore.providers.zookeeper.listing import identities_owned, rows_of
from metastore.providers.zookeeper.records import Stored
from metastore.providers.zookeeper.selection import select
from metastore.providers.zookeeper.sequences import greatest_of, next_key, prefixes_of
from metastore.providers.zookeeper.view import Inconsistent
from metastore.providers.zookeeper.write import Author, Write

T = TypeVar("T")
Plan = Callable[[Write], T]

_REMOVAL_BYTES = 1_000
"""About what it takes to remove a record without a value or an index entry, and again for each of these entries."""


def put(
    identity: Identity, value: bytes, expected: int | None, indexes: Sequence[Index], author: Author | None
) -> Plan[PutResult]:
    """A put under a key."""

    def plan(write: Write) -> PutResult:
        session_id = None if author is None else author.session_id
        write.prepare([identity], write.attached(identity, indexes, session_id), author)
        _check_author(write, author)
        _check_expected(identity, write.find(identity), expected)
        return write.put(identity, value, indexes, author)

    return plan


def put_next(
    prefix: str,
    partition_key: str,
    value: bytes,
    deltas: Sequence[int],
    indexes: Sequence[Index],
    author: Author | None,
) -> Plan[PutResult]:
    """A put to a sequence."""

    def plan(write: Write) -> PutResult:
        _check_author(write, author)
        return write.put_next(prefix, partition_key, value, deltas, indexes, author)

    return plan


def delete(identity: Identity, expected: int | None) -> Plan[bool]:
    """A delete: whether there was anything."""

    def plan(write: Write) -> bool:
        write.prepare([identity])
        stored = write.find(identity)
        _check_expected(identity, stored, expected)
        if stored is None:
            return False
        write.remove(stored)
        return True

    return plan


def transact(
    partition_key: str, operations: Sequence[Operation], conditions: Sequence[Condition], author: Author | None
) -> Plan[tuple[PutResult | None, ...]]:
    """All of these operations, if every condition holds."""

    def plan(write: Write) -> tuple[PutResult | None, ...]:
        _prepare_judgement(write, partition_key, operations, conditions, author)
        if author is not None:
            _check_author(write, author)
        _check_conditions(write, partition_key, operations, conditions)
        identities = [identity_of(key, partition_key) for key in _final_keys(write, partition_key, operations)]
        _prepare_operations(write, identities, operations, author)
        results: dict[int, PutResult | None] = {}
        for place in sorted(range(len(operations)), key=lambda place: not is_numbered(operations[place])):
            results[place] = _carry_out(write, identities[place], operations[place], author)
        return tuple(results[place] for place in range(len(results)))

    return plan


def _prepare_judgement(
    write: Write,
    partition_key: str,
    operations: Sequence[Operation],
    conditions: Sequence[Condition],
    author: Author | None,
) -> None:
    """Asks for what conditions are about, and what sequences are numbered by."""
    named = [each.key for each in (*conditions, *operations) if isinstance(each, Condition) or not is_numbered(each)]
    counters = [write.layout.counter(each.key, partition_key) for each in operations if is_numbered(each)]
    write.prepare([identity_of(key, partition_key) for key in named], counters, author)


def _final_keys(write: Write, partition_key: str, operations: Sequence[Operation]) -> Sequence[str]:
    """The keys of operations, those of sequences generated; no two are the same."""
    prefixes = dict.fromkeys(each.key for each in operations if is_numbered(each))
    greatest = {prefix: write.greatest(prefix, partition_key) for prefix in prefixes}
    keys = []
    for operation in operations:
        key = operation.key
        if isinstance(operation, Put) and operation.sequence_deltas:
            key = next_key(key, greatest[key], operation.sequence_deltas)
            for prefix in greatest.keys() & prefixes_of(key):
                greatest[prefix] = greatest_of(prefix, [greatest[prefix] or key, key])
        keys.append(key)
    check_one_for_each_key(keys)
    return keys


def _prepare_operations(
    write: Write, identities: Sequence[Identity], operations: Sequence[Operation], author: Author | None
) -> None:
    spots = []
    for identity, operation in zip(identities, operations, strict=True):
        if isinstance(operation, Put):
            session_id = author.session_id if author is not None and operation.is_ephemeral else None
            spots += write.attached(identity, operation.indexes, session_id)
    write.prepare(identities, spots, author)
    write.prepare_removals(identities)


def _carry_out(write: Write, identity: Identity, operation: Operation, author: Author | None) -> PutResult | None:
    if isinstance(operation, Put):
        owner = author if operation.is_ephemeral else None
        sequence = operation.key if operation.sequence_deltas else None
        return write.put(identity, operation.value, operation.indexes, owner, sequence)
    stored = write.find(identity)
    if stored is not None:
        write.remove(stored)
    return None


def _check_conditions(
    write: Write, partition_key: str, operations: Sequence[Operation], conditions: Sequence[Condition]
) -> None:
    expectations = [(condition.key, condition.version_id) for condition in conditions]
    expectations += [(each.key, each.expected) for each in operations if each.expected is not None]
    failed = []
    for place, (key, expected) in enumerate(expectations):
        actual = _version_of(write.find(identity_of(key, partition_key)))
        if actual != expected:
            failed.append(FailedCondition(place, key, expected, actual))
    if failed:
        first = failed[0]
        found, wanted = _named(first.actual), _named(first.expected)
        raise ConditionFailed(
            f"nothing was changed: {shown(first.key)} is {found}, not {wanted}"
            + (f", and {len(failed) - 1} more conditions do not hold" if len(failed) > 1 else ""),
            tuple(failed),
        )


def delete_range(sweep: Sweep) -> Plan[None]:
    """Removes a range: at once if it is small, else by saying in the head that it is gone."""

    def plan(write: Write) -> None:
        stored = _selected(write, sweep, SWEEP_RECORDS_MAX + 1)
        if len(stored) <= SWEEP_RECORDS_MAX and sum(map(_removal_bytes, stored)) <= SWEEP_BYTES_MAX:
            for each in stored:
                write.remove(each)
        else:
            write.announce(sweep)

    return plan


def sweep_portion(write: Write) -> None:
    """Removes the next records of the range that the head says is gone, and says so no more behind the last."""
    write.stage.need([write.layout.head])
    sweep = write.head.sweep
    if sweep is None:
        return
    stored = _selected(write, sweep, SWEEP_RECORDS_MAX)
    portion = _portion(stored)
    for each in portion:
        write.remove(each)
    if len(portion) == len(stored) < SWEEP_RECORDS_MAX:
        write.end_sweep()


def _selected(write: Write, sweep: Sweep, count_max: int) -> list[Stored]:
    rows = rows_of(write.stage, write.layout, select(write.order, sweep.range, None, sweep.partition_key))
    return write.prepare_removals([row.identity for row in rows[:count_max]])


def end_session(session_id: int, is_forced: bool) -> Plan[bool]:
    """Removes records of a session that has ended, or ends it first; whether there may be more."""

    def plan(write: Write) -> bool:
        marker = write.layout.session(session_id)
        write.stage.need([write.layout.head, marker], [write.layout.owned_by(session_id)])
        if write.stage.node(marker) is not None:
            if not is_forced:
                return False
            write.stage.remove(marker)
        identities = identities_owned(write.stage, write.layout, session_id, SWEEP_RECORDS_MAX)
        stored = write.prepare_removals(identities)
        portion = _portion(stored)
        for each in portion:
            if each.header.version.session_id != session_id:
                raise Inconsistent(f"{each.identity} should be of session {session_id}")
            write.remove(each)
        return bool(portion)

    return plan


def nothing(write: Write) -> None:
    """Changes nothing; but when it has had its turn, every sweep that it met is done."""
    write.stage.need([write.layout.head])


def _portion(stored: Sequence[Stored]) -> list[Stored]:
    """As many as fit into one write; one at least, since whatever could be stored can be removed."""
    portion: list[Stored] = []
    size = 0
    for each in stored:
        size += _removal_bytes(each)
        if portion and size > SWEEP_BYTES_MAX:
            break
        portion.append(each)
    return portion


def _removal_bytes(stored: Stored) -> int:
    entries = sum(len(name) + len(key) for name, key in stored.header.indexes)
    texts = len(stored.identity.key) + len(stored.identity.home) + entries
    return _REMOVAL_BYTES * (1 + len(stored.header.indexes)) + 6 * texts + len(stored.value)


def _check_author(write: Write, author: Author | None) -> None:
    if author is not None and write.stage.node(write.layout.session(author.session_id)) is None:
        raise SessionLost(f"session {author.session_id} has ended, and its records with it: open another one")


def _check_expected(identity: Identity, stored: Stored | None, expected: int | None) -> None:
    actual = _version_of(stored)
    if expected is not None and expected != actual:
        raise UnexpectedVersion(
            f"{shown(identity.key)} is {_named(actual)}, not {_named(expected)}: read it again", identity.key, expected
        )


def _version_of(stored: Stored | None) -> int:
    return ABSENT if stored is None else stored.version_id


def _named(version_id: int) -> str:
    return "absent" if version_id == ABSENT else f"at version {version_id}"
