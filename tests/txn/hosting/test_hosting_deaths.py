"""A host dies at a named point, in the middle of transactions over several segments: everywhere the same outcome."""

from __future__ import annotations

from pathlib import Path

import pytest
from hosting_hosts import SEGMENTS, Client, RunningHost, check_outcome, collected

from metastore.coordination import Pace
from metastore.faults import Faults
from support.world import World, run
from txn.hosting import local_place_of
from txn.segment.log import LocalLogs

S = SEGMENTS[0]
every_outcome = pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])

POINTS = [
    "segment.append.before",
    "segment.append.after",
    "segment.state.before",
    "segment.state.after",
    "txn.own.granted",
    "txn.own.log.opened",
    "txn.own.buffer.recovered",
    "txn.own.recovered",
    "txn.recovery.begin",
    "txn.recovery.records",
    "txn.recovery.headers",
    "txn.recovery.producers",
    "txn.publish.intent.before",
    "txn.publish.intent.after",
    "txn.publish.append.after",
    "txn.cursor.create.before",
    "txn.cursor.create.after",
    "txn.ack.record.before",
    "txn.ack.record.after",
    "txn.settle.aborted.before",
    "txn.settle.aborted.after",
    "txn.settle.cursor.before",
    "txn.settle.cursor.after",
    "txn.settle.era.after",
    "txn.cursor.write.before",
    "txn.cursor.write.after",
    "txn.settle.operations.before",
    "txn.settle.operations.after",
]
ONLY_COMMIT = {"txn.settle.cursor.before", "txn.settle.cursor.after"}
ONLY_ABORT = {"txn.settle.aborted.before", "txn.settle.aborted.after", "txn.settle.era.after"}


class Death(Faults):
    """The host that comes to a point for the given time is cut off from the store there, for ever."""

    left = 0
    point = ""

    def __init__(self) -> None:
        self.host: RunningHost | None = None

    def reach(self, point: str) -> None:
        if point == Death.point:
            Death.left -= 1
            if Death.left == 0 and self.host is not None:
                self.host.process.store.line.close()


async def mortal_hosts(
    world: World, count: int, point: str, time: int = 1, root: Path | None = None
) -> list[RunningHost]:
    """So many of them, of which one will die; with a directory they share it."""
    Death.point, Death.left = point, time
    made = []
    for _ in range(count):
        death = Death()
        logs = None
        if root is not None:
            logs = {local_place_of(root, Pace()): LocalLogs(root, faults=death, threads=world.threads())}
        death.host = RunningHost(world, logs, death)
        made.append(await death.host.start())
    return made


@every_outcome
@pytest.mark.parametrize(
    ("point", "time", "is_local"),
    [(point, 1, False) for point in POINTS]
    + [(point, 2, False) for point in POINTS if "settle" in point or "intent" in point]
    + [(point, 1, True) for point in POINTS if point.startswith(("txn.publish", "txn.settle.oper", "txn.own"))],
)
def test_one_host_dies_at_any_moment_and_the_outcome_is_the_same_everywhere(
    point: str, time: int, is_local: bool, is_committed: bool, tmp_path: Path
) -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await mortal_hosts(world, 3, point, time, tmp_path if is_local else None))
        before = {}
        for segment in SEGMENTS:
            await client.create(segment)
            before[segment] = await client.send(segment, f"{segment} before")
            await client.subscribe(segment)
        txn_id = await client.begin()
        for segment in SEGMENTS:
            await client.send(segment, f"{segment} in", txn_id)
            await client.acknowledge(segment, before[segment], txn_id)
            await client.send(segment, f"{segment} after")
        for segment in SEGMENTS:
            assert await client.read(segment) == [f"{segment} before"], "nothing behind an open transaction"
            assert await client.receive(segment) == [], "what it has acknowledged is held"
        await (client.commit(txn_id) if is_committed else client.abort(txn_id))
        await check_outcome(world, client, is_committed)
        is_reached = point not in (ONLY_ABORT if is_committed else ONLY_COMMIT)
        assert (Death.left <= 0) == is_reached or time > 1

    run(scenario)


@pytest.mark.parametrize("point", ["txn.delete.log.after", "txn.delete.records.after", "txn.delete.operations.after"])
def test_an_owner_that_dies_while_it_deletes_is_followed_by_one_that_goes_on(point: str) -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await mortal_hosts(world, 2, point))
        await client.create(S)
        await client.subscribe(S)
        txn_id = await client.begin()
        await client.send(S, "in", txn_id)
        await client.delete(S)
        assert len(client.living) == 1
        assert not [key for key in await world.keys() if key.startswith("/segments/")]
        await client.commit(txn_id)
        assert await collected(world) == []

    run(scenario)
