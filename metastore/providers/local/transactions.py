"""All-or-nothing writes, from the contract's words into the engine's and back. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from metastore.engine.errors import ConditionsFailed
from metastore.engine.operations import PutOptions, Transaction, WriteResult
from metastore.interface import Condition, ConditionFailed, FailedCondition, Operation, Put, PutResult
from metastore.providers.local.records import put_result, raw_indexes


class TransactionForm:
    """One transaction. The engine takes all puts, then all deletes; the contract has one sequence of both."""

    def __init__(self, operations: Sequence[Operation], conditions: Sequence[Condition]) -> None:
        self._operations = operations
        self._conditions = conditions

    @property
    def needs_session(self) -> bool:
        return any(isinstance(each, Put) and each.is_ephemeral for each in self._operations)

    def encoded(self, partition_key: str, session_id: int | None, identity: str) -> Transaction:
        """What the engine is asked for."""
        transaction = Transaction([(each.key.encode(), each.version_id) for each in self._conditions])
        for each in self._operations:
            if isinstance(each, Put):
                options = PutOptions(
                    expected_version_id=each.expected,
                    session_id=session_id if each.is_ephemeral else None,
                    client_identity=identity.encode() if each.is_ephemeral else None,
                    partition_key=partition_key.encode(),
                    sequence_key_deltas=each.sequence_deltas,
                    secondary_indexes=raw_indexes(each.indexes),
                )
                transaction.puts.append((each.key.encode(), each.value, options))
            else:
                transaction.deletes.append((each.key.encode(), each.expected))
        return transaction

    def results(self, result: WriteResult) -> tuple[PutResult | None, ...]:
        """The answers in the order of the operations."""
        stored = iter(result.puts)
        return tuple(put_result(each.key, next(stored)) if isinstance(each, Put) else None for each in self._operations)

    def failure(self, error: ConditionsFailed) -> ConditionFailed:
        """The error of the contract: the engine counts the puts before the deletes, the contract as they came."""
        expecting = [each for each in self._operations if each.expected is not None]
        in_engine = sorted(range(len(expecting)), key=lambda place: not isinstance(expecting[place], Put))
        before = len(self._conditions)
        places = [*range(before), *(before + place for place in in_engine)]
        failed = sorted((places[each.place], each) for each in error.failed)
        return ConditionFailed(
            str(error),
            tuple(FailedCondition(place, each.key.decode(), each.expected, each.actual) for place, each in failed),
        )
