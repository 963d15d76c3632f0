"""What may happen to a transaction on its way: scenarios e, g, h, j, k, m and n.

Brokers are killed within this process; tests/faults kills real ones.
"""

from __future__ import annotations

import pytest

from txn.hosting.errors import NoSuchSegment
from txn.model import paths
from txn.model.header import TxnState
from txn.segment.cursor import Ack
from txn.segment.errors import SegmentSealed
from txn_histories.notes import Fate
from txn_scenarios.scene import EVERYWHERE, OPTIONS, Scene, names_of, play

PARENT, CHILD, IN, OUT, GONE = (
    f"segment://public/default/{name}/0000-7fff-0" for name in ("parent", "child", "in", "out", "gone")
)


@EVERYWHERE
@pytest.mark.parametrize("commits", [True, False])
def test_scenario_e_a_segment_is_sealed_in_the_middle(shards: int, lacks: tuple[str, ...], commits: bool) -> None:
    """The transaction goes on in a successor: recorded was a commit that was refused though every send had an id."""

    async def scenario(scene: Scene) -> None:
        await scene.create(PARENT)
        plain = await scene.send(PARENT, 1)
        txn = await scene.begin()
        before = await scene.send(PARENT, 3, txn)
        reached = await scene.reach(PARENT)
        await reached.broker.call(reached.segment.seal)
        other = await scene.begin()
        with pytest.raises(SegmentSealed):
            await scene.send(PARENT, 1, other)
        await scene.abort(other)
        await scene.create(CHILD)
        after = await scene.send(CHILD, 3, txn)
        assert await scene.read(PARENT) == plain
        await (scene.commit if commits else scene.abort)(txn)
        await scene.pause(1.0)
        assert await scene.read(PARENT) == plain + before * commits
        assert await scene.read(CHILD) == after * commits
        await scene.restart()
        assert await scene.consume(PARENT, "late") == plain + before * commits

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_g_the_broker_is_killed_while_transactions_are_open(shards: int, lacks: tuple[str, ...]) -> None:
    """Recorded: acknowledgements committed afterwards were delivered again, and uncommitted messages delivered."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN, OUT)
        inputs = await scene.send(IN, 6)
        taking = await scene.attach(IN, "sub")
        deliveries = await scene.take(taking)
        commits, aborts, acked = await scene.begin(), await scene.begin(), await scene.begin()
        outputs = await scene.send(OUT, 3, commits)
        await scene.send(OUT, 3, aborts)
        assert (await scene.acknowledge(taking, deliveries[:3], commits)).is_done
        assert (await scene.acknowledge(taking, deliveries[3:4], aborts)).is_done
        assert (await scene.acknowledge(taking, deliveries[4:], acked)).is_done
        await scene.commit(acked)
        await scene.restart()
        assert await scene.read(OUT) == [], "nothing that is not committed"
        assert await scene.consume(IN, "sub") == [], "all of it is acknowledged, or held"
        await scene.commit(commits)
        await scene.abort(aborts)
        await scene.pause(1.0)
        assert await scene.read(OUT) == outputs
        assert await scene.consume(IN, "sub") == inputs[3:4]

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_h_the_client_is_gone_and_its_transaction_runs_out_of_time(
    shards: int, lacks: tuple[str, ...]
) -> None:
    """Whoever comes after it gets everything that it had taken, and nothing that it had written."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN, OUT)
        inputs = await scene.send(IN, 2)
        taking = await scene.attach(IN, "sub")
        txn = await scene.begin(4_000)
        await scene.send(OUT, 2, txn)
        await scene.acknowledge(taking, await scene.take(taking), txn)
        await taking.aclose()
        plain = await scene.send(OUT, 1, producer="another")
        assert await scene.consume(IN, "sub") == await scene.read(OUT) == []
        await scene.pause(4.0)
        assert await scene.consume(IN, "sub") == inputs
        assert await scene.read(OUT) == plain

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_j_messages_of_batches_are_acknowledged_in_transactions(shards: int, lacks: tuple[str, ...]) -> None:
    """Two transactions share an entry; one commits, one aborts, and a restart loses no message of either."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN)
        (name,) = await scene.send(IN, 1, size=6)
        taking = await scene.attach(IN, "sub")
        (delivery,) = await scene.take(taking)
        commits, aborts, rival = await scene.begin(), await scene.begin(), await scene.begin()
        assert (await taking.acknowledge([Ack(delivery.position, False, (0, 1, 2), 6)], commits)).is_done
        assert (await taking.acknowledge([Ack(delivery.position, False, (3,), 6)], aborts)).is_done
        told = await taking.acknowledge([Ack(delivery.position, False, (2, 4), 6)], rival)
        assert told.fate is Fate.REFUSED
        await scene.abort(rival)
        await scene.restart()
        await scene.commit(commits)
        await scene.abort(aborts)
        await scene.pause(1.0)
        taking = await scene.attach(IN, "sub")
        (delivery,) = await scene.take(taking)
        assert delivery.acknowledged is not None
        assert (delivery.entry.payload.decode(), delivery.acknowledged.bits) == (name, 0b000111)
        assert (await taking.acknowledge([Ack(delivery.position, False, (3, 4, 5), 6)], None)).is_done
        await taking.aclose()
        assert await scene.consume(IN, "sub") == []

    play(scenario, shards, lacks)


@EVERYWHERE
@pytest.mark.parametrize("commits", [True, False])
def test_scenario_k_a_segment_is_deleted_before_the_end(shards: int, lacks: tuple[str, ...], commits: bool) -> None:
    """The transaction ends as ever, and nothing is left: recorded were rows, headers and events that stay and grow."""

    async def scenario(scene: Scene) -> None:
        await scene.create(GONE, OUT)
        txn = await scene.begin()
        await scene.send(GONE, 2, txn)
        taking = await scene.attach(GONE, "sub")
        outputs = await scene.send(OUT, 2, txn)
        await taking.aclose()
        assert scene.broker.host is not None
        await scene.broker.call(scene.broker.host.delete, GONE)
        scene.segments.remove(GONE)
        with pytest.raises(NoSuchSegment):
            await scene.reach(GONE)
        await (scene.commit if commits else scene.abort)(txn)
        await scene.pause(1.0)
        assert await scene.read(OUT) == outputs * commits
        await scene.pause(OPTIONS.retention_ms / 1000 + 40.0)
        assert await scene.keys(f"{paths.HEADERS}/", f"{paths.OPERATIONS}/", f"{paths.APPLIED}/") == []
        assert await scene.keys(paths.segment_path(GONE), paths.owner_key(GONE)) == []

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_m_subscriptions_whose_names_begin_alike(shards: int, lacks: tuple[str, ...]) -> None:
    """Each has its own acknowledgements: recorded was a commit that failed because of another one's name."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN)
        names = await scene.send(IN, 4)
        takings = {name: await scene.attach(IN, name) for name in ("s", "s-1", "a", "ab")}
        taken = {name: await scene.take(taking) for name, taking in takings.items()}
        txn, aborted = await scene.begin(), await scene.begin()
        for count, (name, taking) in enumerate(takings.items()):
            if count:
                assert (await scene.acknowledge(taking, taken[name][:count], txn)).is_done
        assert (await scene.acknowledge(takings["s"], taken["s"][:2], aborted)).is_done
        await scene.commit(txn)
        assert txn.state is TxnState.COMMITTED
        await scene.abort(aborted)
        await scene.pause(1.0)
        for count, (name, taking) in enumerate(takings.items()):
            await taking.aclose()
            assert await scene.consume(IN, name) == names[count:]

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_n_nothing_is_left_after_the_retention_and_nothing_is_shown_that_was_aborted(
    shards: int, lacks: tuple[str, ...]
) -> None:
    """Recorded on four shards: a header that was collected, rows that were orphaned, and aborted messages delivered."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN, OUT)
        await scene.send(IN, 2)
        taking = await scene.attach(IN, "sub")
        commits, aborts = await scene.begin(), await scene.begin()
        committed = await scene.send(OUT, 2, commits)
        await scene.send(OUT, 2, aborts)
        await scene.acknowledge(taking, await scene.take(taking), commits)
        await taking.aclose()
        await scene.commit(commits)
        await scene.abort(aborts)
        await scene.pause(OPTIONS.retention_ms / 1000 + 2.0)
        assert await scene.keys(f"{paths.HEADERS}/", f"{paths.OPERATIONS}/", f"{paths.APPLIED}/") == []
        assert await scene.read(OUT) == committed
        assert await scene.consume(OUT, "late") == committed
        await scene.restart()
        assert await scene.read(OUT) == committed
        assert await scene.consume(OUT, "later") == committed
        taking = await scene.attach(IN, "sub")
        assert names_of(await scene.take(taking)) == []

    play(scenario, shards, lacks)
