"""How transactions end, over several segments and subscriptions: scenarios a to d, f, i and l."""

from __future__ import annotations

from txn.model import paths
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.segment.cursor import Ack
from txn_histories.notes import Fate
from txn_scenarios.scene import EVERYWHERE, Scene, names_of, play

LEFT, RIGHT, IN, OUT, PREFIX = (
    f"segment://public/default/{name}/0000-7fff-0" for name in ("left", "right", "in", "out", "out-prefix")
)


@EVERYWHERE
def test_scenario_a_a_commit_over_two_topics_and_two_subscriptions(shards: int, lacks: tuple[str, ...]) -> None:
    """All of it is seen, and stays acknowledged. Recorded on four shards: 4 of 12 messages, and 18 of 21 rows left."""

    async def scenario(scene: Scene) -> None:
        await scene.create(LEFT, RIGHT, IN)
        await scene.send(IN, 3)
        takings = [await scene.attach(IN, name) for name in ("one", "two")]
        taken = [await scene.take(taking) for taking in takings]
        txn = await scene.begin()
        outputs = [await scene.send(segment, 6, txn) for segment in (LEFT, RIGHT)]
        for taking, deliveries in zip(takings, taken, strict=True):
            assert (await scene.acknowledge(taking, deliveries, txn)).is_done
        assert await scene.read(LEFT) == await scene.read(RIGHT) == []
        await scene.commit(txn)
        await scene.pause(1.0)
        assert [await scene.read(segment) for segment in (LEFT, RIGHT)] == outputs
        assert await scene.keys(f"{paths.OPERATIONS}/") == []
        for taking in takings:
            await taking.aclose()
            assert await scene.consume(IN, taking.subscription.name) == []

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_b_an_abort_and_a_plain_message_behind_it(shards: int, lacks: tuple[str, ...]) -> None:
    """Nothing of it is ever seen, its acknowledgements come again, and what stood behind it is seen at once."""

    async def scenario(scene: Scene) -> None:
        await scene.create(OUT, IN)
        inputs = await scene.send(IN, 2)
        taking = await scene.attach(IN, "sub")
        txn = await scene.begin()
        await scene.send(OUT, 4, txn)
        assert (await scene.acknowledge(taking, await scene.take(taking), txn)).is_done
        plain = await scene.send(OUT, 1)
        assert await scene.read(OUT) == []
        await scene.abort(txn)
        await scene.pause(1.0)
        assert await scene.read(OUT) == plain
        assert names_of(await scene.take(taking)) == inputs
        assert await scene.consume(OUT, "subscribed afterwards") == plain

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_c_a_transaction_that_is_left_open_holds_its_own_segment_only(
    shards: int, lacks: tuple[str, ...]
) -> None:
    """Nor is it ended by the end of another one whose id begins alike, as recorded in i."""

    async def scenario(scene: Scene) -> None:
        await scene.create(OUT, PREFIX)
        await scene.abort(await scene.begin())
        txn = await scene.begin()
        first = await scene.send(PREFIX, 1, txn)
        alike = await scene.begin()
        while not str(alike.txn_id).startswith(str(txn.txn_id)):
            await scene.abort(alike)
            alike = await scene.begin()
        await scene.send(OUT, 2, alike)
        await scene.commit(alike)
        await scene.pause(1.0)
        plain = await scene.send(PREFIX, 1)
        assert await scene.read(PREFIX) == []
        assert len(await scene.read(OUT)) == 2
        await scene.restart()
        assert await scene.read(PREFIX) == []
        await scene.commit(txn)
        await scene.pause(1.0)
        assert await scene.read(PREFIX) == first + plain

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_d_a_deadline_strikes_at_its_time_and_a_late_commit_hears_of_it(
    shards: int, lacks: tuple[str, ...]
) -> None:
    """Not at the next round of a sweep, which was up to five seconds later."""

    async def scenario(scene: Scene) -> None:
        await scene.create(OUT)
        txn = await scene.begin(3_000)
        await scene.send(OUT, 2, txn)
        plain = await scene.send(OUT, 1)
        assert await scene.read(OUT) == []
        await scene.pause(2.2)
        assert await scene.state_of(txn.txn_id) is TxnState.ABORTED
        assert await scene.read(OUT) == plain
        await scene.client.end(txn, TxnState.COMMITTED)
        assert txn.state is TxnState.ABORTED

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_f_cumulative_acknowledgements(shards: int, lacks: tuple[str, ...]) -> None:
    """A committed one stands, an aborted one gives everything back that it covered: recorded was nothing."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN)
        names = await scene.send(IN, 8)
        taking = await scene.attach(IN, "sub")
        deliveries = await scene.take(taking)
        committed, aborted = await scene.begin(), await scene.begin()
        assert (await taking.acknowledge([Ack(deliveries[2].position, True)], committed)).is_done
        rival = await taking.acknowledge([Ack(deliveries[5].position, True)], aborted)
        assert rival.fate is Fate.REFUSED, "one at a time can hold a cumulative one"
        await scene.commit(committed)
        await scene.pause(1.0)
        await scene.abort(aborted)
        again = await scene.begin()
        assert (await taking.acknowledge([Ack(deliveries[5].position, True)], again)).is_done
        await scene.abort(again)
        assert names_of(await scene.take(taking)) == names[3:]
        await taking.aclose()
        await scene.restart()
        assert await scene.consume(IN, "sub") == names[3:]

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_i_two_hundred_small_transactions_of_which_half_are_aborted(
    shards: int, lacks: tuple[str, ...]
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(LEFT, RIGHT)
        seen: dict[str, list[str]] = {LEFT: [], RIGHT: []}
        ids: set[TxnId] = set()
        for number in range(200):
            txn = await scene.begin()
            ids.add(txn.txn_id)
            for segment, names in seen.items():
                sent = await scene.send(segment, 1, txn)
                names += sent if number % 2 else []
            await (scene.commit if number % 2 else scene.abort)(txn)
        await scene.pause(1.0)
        assert len(ids) == 200
        assert {segment: await scene.read(segment) for segment in seen} == seen
        await scene.restart()
        assert {segment: await scene.consume(segment, "late") for segment in seen} == seen

    play(scenario, shards, lacks)


@EVERYWHERE
def test_scenario_l_one_message_acknowledged_in_two_transactions(shards: int, lacks: tuple[str, ...]) -> None:
    """The second is refused before anything is written: recorded was a row that stayed to the end."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN)
        names = await scene.send(IN, 2)
        taking = await scene.attach(IN, "sub")
        deliveries = await scene.take(taking)
        first, second = await scene.begin(), await scene.begin()
        assert (await scene.acknowledge(taking, deliveries[:1], first)).is_done
        before = await scene.keys(f"{paths.OPERATIONS}/")
        told = await scene.acknowledge(taking, deliveries, second)
        assert told.fate is Fate.REFUSED, "all of a call or nothing"
        assert await scene.keys(f"{paths.OPERATIONS}/") == before
        await scene.abort(second)
        await scene.commit(first)
        await taking.aclose()
        assert await scene.consume(IN, "sub") == names[1:]

    play(scenario, shards, lacks)
