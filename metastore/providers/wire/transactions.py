"""`transact` as our service takes it: requests made of operations, results made of its answers."""

from __future__ import annotations

from collections.abc import Sequence

from metastore.interface.checks import shown
from metastore.interface.errors import ConditionFailed, FailedCondition, StoreFailed
from metastore.interface.values import ABSENT, Condition, Operation, Put, PutResult
from metastore.pb import oxia_pb2, tidemark_pb2
from metastore.providers.wire.answers import version_of
from metastore.providers.wire.protocol import from_wire, to_wire
from metastore.providers.wire.requests import delete_body, put_body


def transact_request(
    shard_id: int,
    partition_key: str,
    operations: Sequence[Operation],
    conditions: Sequence[Condition],
    session: tuple[int, str] | None,
) -> bytes:
    """A TransactRequest; `session` is an id on the shard, and an identity."""
    request = tidemark_pb2.TransactRequest(shard=shard_id)
    for condition in conditions:
        request.conditions.add(key=to_wire(condition.key), version_id=condition.version_id)
    for operation in operations:
        entry = request.operations.add()
        if isinstance(operation, Put):
            owner = session if operation.is_ephemeral else None
            body = put_body(
                operation.key,
                operation.value,
                operation.expected,
                owner,
                partition_key,
                operation.sequence_deltas,
                operation.indexes,
            )
            entry.put.CopyFrom(oxia_pb2.PutRequest.FromString(body))
        else:
            body = delete_body(operation.key, operation.expected, partition_key)
            entry.delete.CopyFrom(oxia_pb2.DeleteRequest.FromString(body))
    return request.SerializeToString()


def transact_result(
    response: tidemark_pb2.TransactResponse, operations: Sequence[Operation]
) -> tuple[PutResult | None, ...]:
    """The stored versions, and the keys of sequences; ConditionFailed says what did not hold."""
    if response.failed:
        raise condition_failed([_failed_condition(failed) for failed in response.failed])
    if len(response.results) != len(operations):
        raise StoreFailed(f"transact: the server gave {len(response.results)} results for {len(operations)} operations")
    return tuple(
        [
            PutResult(_stored_key(operation, result), version_of(result.version))
            if isinstance(operation, Put)
            else None
            for operation, result in zip(operations, response.results, strict=True)
        ]
    )


def _stored_key(put: Put, result: tidemark_pb2.TransactResult) -> str:
    if put.sequence_deltas and not result.HasField("key"):
        raise StoreFailed(f"transact: the server did not tell the key that it generated for sequence {shown(put.key)}")
    return from_wire(result.key) if put.sequence_deltas else put.key


def _failed_condition(message: tidemark_pb2.FailedCondition) -> FailedCondition:
    return FailedCondition(
        message.place, from_wire(message.key), message.expected_version_id, message.actual_version_id
    )


def condition_failed(failed: Sequence[FailedCondition]) -> ConditionFailed:
    """The error that tells all conditions that did not hold."""
    told = "; ".join(f"{shown(each.key)} {_state(each.actual)}, expected {_state(each.expected)}" for each in failed)
    return ConditionFailed(f"transact: nothing was changed: {told}: read what is there, and decide anew", tuple(failed))


def _state(version_id: int) -> str:
    return "absent" if version_id == ABSENT else f"at version {version_id}"
