"""The engine beside the model: the same requests, restarts in between, and every answer compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, settings

from metastore.clock import ManualClock
from metastore.engine.errors import EngineError
from metastore.server import wire
from metastore.server.errors import RpcError, rpc_error
from shard_model.machine import ShardMachine
from shard_model.protocol import ShardUnderTest
from support.local_shard import LocalShard

BUDGET = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,  # a step opens files and waits for a disk
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class EngineShard(LocalShard):
    """A shard that is also given several requests while no round can begin."""

    def write_together(self, raws: Sequence[bytes]) -> Sequence[bytes | RpcError]:
        answers: list[bytes | RpcError | None] = [None] * len(raws)

        def submit(place: int, raw: bytes) -> None:
            def done(result: Any, error: BaseException | None) -> None:
                answers[place] = wire.encode_write_result(result) if error is None else refusal(error)

            try:
                self.shard.submit_write(wire.decode_write(raw)[1], done)
            except (EngineError, wire.WireError) as error:
                answers[place] = refusal(error)

        def submit_all() -> None:
            for place, raw in enumerate(raws):
                submit(place, raw)

        self.shard.rounds.between_rounds(submit_all)
        given = [answer for answer in answers if answer is not None]
        assert len(given) == len(raws), "everything is answered when the rounds are over"
        return given


def refusal(error: BaseException) -> RpcError:
    known = rpc_error(error)
    assert known is not None, error
    return known


class EngineMachine(ShardMachine):
    """Every run has a folder of its own, which it leaves empty."""

    def open_shard(self, clock: ManualClock) -> ShardUnderTest:
        self.folder = TemporaryDirectory(prefix="tidemark-shard-")
        return EngineShard(Path(self.folder.name), self.sorting, clock)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.folder.cleanup()


class HierarchicalMachine(EngineMachine):
    sorting = "hierarchical"


class NaturalMachine(EngineMachine):
    sorting = "natural"


TestHierarchicalShard = HierarchicalMachine.TestCase
TestHierarchicalShard.settings = BUDGET
TestNaturalShard = NaturalMachine.TestCase
TestNaturalShard.settings = BUDGET
