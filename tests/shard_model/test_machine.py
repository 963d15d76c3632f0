"""The state machine finds what it is there to find: shards that are wrong in one thing."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from metastore.clock import ManualClock
from metastore.pb import oxia_pb2 as pb
from metastore.server.errors import RpcError
from shard_model import ModelInvalid, ShardModel
from shard_model.machine import ShardMachine
from shard_model.order import is_internal
from shard_model.protocol import ShardUnderTest
from shard_model.staging import Staging

FINDING = settings(
    max_examples=400,
    stateful_step_count=25,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class ModelShard(ShardUnderTest):
    """The model in the place of an engine."""

    def __init__(self, model: ShardModel, clock: ManualClock) -> None:
        self.model = model
        self.clock = clock

    def write(self, raw: bytes) -> bytes:
        try:
            return self.model.write(pb.WriteRequest.FromString(raw), self.clock.wall_ms()).SerializeToString()
        except ModelInvalid as refusal:
            raise RpcError(grpc.StatusCode[refusal.code], refusal.text) from refusal

    def write_together(self, raws: Sequence[bytes]) -> Sequence[bytes | RpcError]:
        answers: list[bytes | RpcError] = []
        for raw in raws:
            try:
                answers.append(self.write(raw))
            except RpcError as refusal:
                answers.append(refusal)
        return answers

    def read(self, raw: bytes) -> Sequence[bytes]:
        gets = self.model.read(pb.ReadRequest.FromString(raw))
        return [pb.ReadResponse(gets=[get]).SerializeToString() for get in gets]

    def list(self, raw: bytes) -> Sequence[bytes]:
        return [pb.ListResponse(keys=self.model.list(pb.ListRequest.FromString(raw))).SerializeToString()]

    def range_scan(self, raw: bytes) -> Sequence[bytes]:
        records = self.model.range_scan(pb.RangeScanRequest.FromString(raw))
        return [pb.RangeScanResponse(records=records).SerializeToString()]

    def create_session(self, timeout_ms: int, identity: bytes) -> int:
        return self.model.create_session(timeout_ms, identity, self.clock.wall_ms())

    def keep_alive(self, session_id: int) -> None:
        self.model.keep_alive(session_id, self.clock.wall_ms())

    def close_session(self, session_id: int) -> None:
        self.model.close_session(session_id, self.clock.wall_ms())

    def expire_sessions(self) -> None:
        due = self.model.due(self.clock.wall_ms())
        if due:
            self.model.expire(due, self.clock.wall_ms())

    def notifications(self, after_offset: int) -> Sequence[bytes]:
        return [batch.SerializeToString() for batch in self.model.notifications(after_offset)]

    def highest_sequence_key(self, prefix: bytes) -> bytes | None:
        return self.model.highest_sequence_key(prefix)

    def settle(self) -> None:
        """There is nothing that lags."""

    def restart(self, clean: bool) -> None:
        self.model.restart(self.clock.wall_ms())

    def close(self) -> None:
        """There is nothing to close."""


class DepthForgotten(ShardModel):
    """Takes `//` at the end of a key for two levels."""

    def __init__(self, sorting: str) -> None:
        super().__init__(sorting)
        self.encode = lambda key: key.count(b"/").to_bytes(2, "big") + key.replace(b"/", b"\xff")


class LongKeysCut(ShardModel):
    """Looks at the first 500 bytes of a key only."""

    def __init__(self, sorting: str) -> None:
        super().__init__(sorting)
        full = self.encode
        self.encode = lambda key: full(key)[:500]


class SessionsForgottenAtRestart(ShardModel):
    """Sessions do not survive."""

    def restart(self, now_ms: int) -> None:
        self.sessions = {}


class RefusalSpendsOffset(ShardModel):
    """Counts a refused request."""

    def write(self, request: pb.WriteRequest, now_ms: int) -> pb.WriteResponse:
        try:
            return super().write(request, now_ms)
        except ModelInvalid:
            self._commit(self._stage(now_ms))
            raise


class OldIndexEntriesStay(ShardModel):
    """An overwritten record is still found under its old secondary keys."""

    def _commit(self, staging: Staging) -> None:
        for key, record in staging.records.items():
            old = self.records.get(key)
            if old is not None:
                object.__setattr__(record, "indexes", record.indexes | old.indexes)
        super()._commit(staging)


class InternalKeysTold(ShardModel):
    """Shows internal keys to whoever asks for all keys."""

    def _keys(self, include_internal: bool) -> Sequence[bytes]:
        return super()._keys(include_internal=any(is_internal(key) for key in self.records))


FAULTY = [
    DepthForgotten,
    LongKeysCut,
    SessionsForgottenAtRestart,
    RefusalSpendsOffset,
    OldIndexEntriesStay,
    InternalKeysTold,
]


def machine_for(kind: type[ShardModel], key_sorting: str) -> type[ShardMachine]:
    class Machine(ShardMachine):
        sorting = key_sorting

        def open_shard(self, clock: ManualClock) -> ShardUnderTest:
            return ModelShard(kind(key_sorting), clock)

    return Machine


@pytest.mark.parametrize("sorting", ["hierarchical", "natural"])
def test_the_model_agrees_with_itself(sorting: str) -> None:
    few = settings(FINDING, max_examples=15)
    run_state_machine_as_test(machine_for(ShardModel, sorting), settings=few)


@pytest.mark.parametrize("kind", FAULTY)
def test_a_wrong_shard_is_found(kind: type[ShardModel]) -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine_for(kind, "hierarchical"), settings=FINDING)
