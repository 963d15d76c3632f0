"""The engine beside the model: the same requests, restarts in between, and every answer compared."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from metastore.clock import ManualClock
from shard_model.machine import ShardMachine
from shard_model.protocol import ShardUnderTest
from support.local_shard import LocalShard

pytestmark = pytest.mark.timeout(400)  # hypothesis simplifies a failure for up to five minutes

BUDGET = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,  # a step opens files and waits for a disk
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class EngineMachine(ShardMachine):
    """Every run has a folder of its own, which it leaves empty."""

    def open_shard(self, clock: ManualClock) -> ShardUnderTest:
        self.folder = TemporaryDirectory(prefix="tidemark-shard-")
        return LocalShard(Path(self.folder.name), self.sorting, clock)

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
