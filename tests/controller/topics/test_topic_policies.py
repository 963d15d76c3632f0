"""What namespaces say of their topics: followed by every broker, changed by compare-and-set."""

from __future__ import annotations

import pytest

from controller.layout import LayoutError, NamespaceName
from controller.topics.policies import NO_POLICY, POLICIES, NamespacePolicy, StoredPolicies
from metastore.interface import OutcomeUnknown
from support.world import World, run, settle

ONE, OTHER = NamespaceName("tenant", "one"), NamespaceName("tenant", "other.1")


def test_what_one_broker_changes_the_others_hear_of() -> None:
    async def scenario(world: World) -> None:
        first, second = world.process(), world.process()
        here, there = StoredPolicies(first.store, first.pace), StoredPolicies(second.store, second.pace)
        heard: list[NamespaceName] = []
        there.listen(heard.append)
        second.start(there.follow())
        await settle()
        wanted = NamespacePolicy({"enabled": False}, -1)
        assert await here.update(ONE, lambda before: wanted) == wanted
        await settle()
        assert (there.find(ONE), there.find(OTHER), heard) == (wanted, NO_POLICY, [ONE])
        await here.update(OTHER, lambda before: NamespacePolicy(before.auto_scale, 0))
        await here.update(ONE, lambda before: NamespacePolicy(None, before.retention_minutes))
        await settle()
        assert (there.find(ONE), there.find(OTHER)) == (NamespacePolicy(None, -1), NamespacePolicy(None, 0))
        assert await here.read(ONE) == NamespacePolicy(None, -1)
        assert await here.read(NamespaceName("no", "where")) == NO_POLICY

    run(scenario)


def test_changes_at_the_same_time_are_all_made() -> None:
    async def scenario(world: World) -> None:
        made = [StoredPolicies(each.store, each.pace) for each in (world.process(), world.process())]

        def more(before: NamespacePolicy) -> NamespacePolicy:
            return NamespacePolicy(None, (before.retention_minutes or 0) + 1)

        world.processes[0].script.fail("put", OutcomeUnknown("lost"))
        tasks = [process.start(each.update(ONE, more)) for process, each in zip(world.processes, made, strict=True)]
        for _ in range(10):
            await world.pass_ms(1_000)
        assert [task.done() for task in tasks] == [True, True]
        assert (await made[0].read(ONE)).retention_minutes == 2

    run(scenario)


def test_what_cannot_be_read_is_left_out() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        policies = StoredPolicies(process.store, process.pace)
        process.start(policies.follow())
        await process.store.put(f"{POLICIES}/tenant~one", b"[7", partition_key=POLICIES)
        await process.store.put(f"{POLICIES}/nothing", b"{}", partition_key=POLICIES)
        await policies.update(OTHER, lambda before: NamespacePolicy(None, 3))
        await settle()
        assert (policies.find(ONE), policies.find(OTHER).retention_minutes) == (NO_POLICY, 3)
        with pytest.raises(LayoutError):
            await policies.read(ONE)

    run(scenario)
