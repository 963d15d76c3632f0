"""Watches beside the model: nothing lost, nothing twice, nothing untrue, whatever happens in between."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from watch_machine import WatchMachine

pytestmark = pytest.mark.timeout(400)  # hypothesis simplifies a failure for up to five minutes

BUDGET = settings(
    max_examples=35,
    stateful_step_count=40,
    deadline=None,  # a step opens files and waits for a disk
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class HierarchicalWatches(WatchMachine):
    sorting = "hierarchical"


class NaturalWatches(WatchMachine):
    sorting = "natural"


TestHierarchicalWatches = HierarchicalWatches.TestCase
TestHierarchicalWatches.settings = BUDGET
TestNaturalWatches = NaturalWatches.TestCase
TestNaturalWatches.settings = BUDGET
