"""What becomes of transactions: one watch for all who follow, no repetition, and what a missing header counts as."""

from __future__ import annotations

import asyncio

import pytest

from metastore.interface import ABSENT, AccessDenied, MetadataStore, Unavailable
from metastore.providers.memory import Part
from support.world import World, run, settle
from txn.model import paths
from txn.model.errors import RecordDamaged, SegmentUnavailable, TooManyOpenTransactions
from txn.model.header import Cause, Header, TxnState
from txn.model.ids import TxnId
from txn.outcomes import Outcomes

ONE, TWO = TxnId(0, 1), TxnId(0, 11)


async def put_header(store: MetadataStore, txn_id: TxnId, state: TxnState = TxnState.OPEN) -> int:
    header = Header(TxnState.OPEN, 1_000, 9_000)
    if state is not TxnState.OPEN:
        header = header.decided(state, Cause.CLIENT, 2_000)
    key, partition = paths.header_key(txn_id), paths.partition(txn_id)
    result = await store.put(key, header.encode(), partition_key=partition, indexes=header.indexes())
    return result.version.version_id


class Counter:
    def __init__(self) -> None:
        self.delays: list[int] = []

    def outcome_learned(self, delay_ms: int) -> None:
        self.delays.append(delay_ms)


@pytest.mark.parametrize("state", [TxnState.COMMITTED, TxnState.ABORTED])
def test_a_decision_is_told_to_all_who_follow(state: TxnState) -> None:
    async def scenario(world: World) -> None:
        process, other = world.process(), world.process()
        version_id = await put_header(other.store, ONE)
        counter = Counter()
        async with Outcomes(process.store, process.pace, counter) as outcomes:
            followed, again = outcomes.follow(ONE), outcomes.follow(ONE)
            assert outcomes.count == 1
            known = await followed.known()
            assert (known.is_open, known.version_id, again.now) == (True, version_id, known)
            waiting = process.start(again.decided())
            await settle()
            assert not waiting.done()
            await put_header(other.store, ONE, state)
            assert await followed.decided() is await waiting is state
            assert followed.now is not None
            assert followed.now.state is state
            assert process.script.arrivals["memory.get.before"] == 0, "nobody asks again and again"
            await settle()
            assert len(counter.delays) == 1
            followed.release()
            again.release()
            again.release()
            assert outcomes.count == 0

    run(scenario)


def test_a_header_that_is_not_there_counts_as_aborted() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await put_header(process.store, TWO)
        async with Outcomes(process.store, process.pace) as outcomes:
            followed, gone = outcomes.follow(ONE), outcomes.follow(TWO)
            known = await followed.known()
            assert (known.header, known.version_id, known.state) == (None, ABSENT, TxnState.ABORTED)
            assert await followed.decided() is TxnState.ABORTED
            assert (await gone.known()).is_open
            await process.store.delete(paths.header_key(TWO), partition_key=paths.partition(TWO))
            assert await gone.decided() is TxnState.ABORTED

    run(scenario)


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_watch_that_is_lost_is_opened_again_by_itself(is_trimmed: bool) -> None:
    async def scenario(world: World) -> None:
        process, other = world.process(), world.process()
        await put_header(other.store, ONE)
        async with Outcomes(process.store, process.pace) as outcomes:
            followed = outcomes.follow(ONE)
            await followed.known()
            process.store.line.cut(Part.WATCHES)
            await put_header(other.store, ONE, TxnState.COMMITTED)
            if is_trimmed:
                world.data.trim()
            await settle()
            assert followed.now is not None
            assert followed.now.is_open
            process.store.line.mend()
            await world.pass_ms(10_000)
            assert await followed.decided() is TxnState.COMMITTED

    run(scenario)


@pytest.mark.parametrize("is_decided_later", [False, True])
def test_what_the_watch_does_not_show_yet_is_looked_at_and_its_decision_is_told_all_the_same(
    is_decided_later: bool,
) -> None:
    async def scenario(world: World) -> None:
        process, other = world.process(), world.process()
        await put_header(other.store, TWO)
        async with Outcomes(process.store, process.pace) as outcomes:
            await outcomes.follow(TWO).known()
            process.store.line.cut(Part.WATCHES)
            version_id = await put_header(other.store, ONE)
            followed = outcomes.follow(ONE)
            known = await followed.known()
            assert (known.is_open, known.version_id) == (True, version_id)
            assert process.script.arrivals["memory.get.before"] == 1
            if is_decided_later:
                process.store.line.mend()
                await settle()
            await put_header(other.store, ONE, TxnState.COMMITTED)
            process.store.line.mend()
            await world.pass_ms(10_000)
            assert await followed.decided() is TxnState.COMMITTED

    run(scenario)


def test_a_decision_that_overtakes_the_look_at_its_transaction_is_learned_once() -> None:
    async def scenario(world: World) -> None:
        process, other = world.process(), world.process()
        await put_header(other.store, TWO)
        counter = Counter()
        async with Outcomes(process.store, process.pace, counter) as outcomes:
            await outcomes.follow(TWO).known()
            process.store.line.cut(Part.WATCHES)
            await put_header(other.store, ONE)
            answer = process.script.hold("get", prefix="/txn/", after=True)
            followed = outcomes.follow(ONE)
            await answer.arrived()
            process.store.line.mend()
            await put_header(other.store, ONE, TxnState.ABORTED)
            assert await followed.decided() is TxnState.ABORTED
            answer.release()
            await settle()
            assert followed.now is not None
            assert followed.now.state is TxnState.ABORTED, "the look brings what was so before"
            assert len(counter.delays) == 1

    run(scenario)


def test_whatever_went_while_nobody_watched_is_looked_at_again_even_if_the_first_look_is_under_way() -> None:
    async def scenario(world: World) -> None:
        process, other = world.process(), world.process()
        await put_header(other.store, ONE)
        async with Outcomes(process.store, process.pace) as outcomes:
            seen = outcomes.follow(ONE)
            await seen.known()
            process.store.line.cut(Part.WATCHES)
            await put_header(other.store, TWO)
            answer = process.script.hold("get", prefix=paths.header_key(TWO), after=True)
            followed = outcomes.follow(TWO)
            await answer.arrived()
            for txn_id in (ONE, TWO):
                await put_header(other.store, txn_id, TxnState.COMMITTED)
            world.data.trim()
            process.store.line.mend()
            await world.pass_ms(10_000)
            assert await seen.decided() is TxnState.COMMITTED
            assert followed.now is None
            answer.release()
            assert await followed.decided() is TxnState.COMMITTED

    run(scenario)


def test_a_look_outlasts_a_store_that_is_away_and_ends_when_nobody_wants_it() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with Outcomes(process.store, process.pace) as outcomes:
            await outcomes.follow(TWO).known()
            process.script.fail("get", Unavailable("away"), prefix="/txn/", times=3)
            followed = outcomes.follow(ONE)
            while followed.now is None:
                await world.pass_ms(1_000)
            assert followed.now.header is None
            gate = process.script.hold("get", prefix="/txn/")
            given_up = outcomes.follow(TxnId(0, 3))
            await gate.arrived()
            given_up.release()
            await settle()
            assert outcomes.count == 2
            with pytest.raises(SegmentUnavailable):
                await given_up.known()

    run(scenario)


def test_who_stops_waiting_or_lets_go_disturbs_nobody() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await put_header(process.store, ONE)
        async with Outcomes(process.store, process.pace) as outcomes:
            followed, other = outcomes.follow(ONE), outcomes.follow(ONE)
            waits = [process.start(followed.decided()), process.start(other.decided())]
            await settle()
            waits[0].cancel()
            await settle()
            followed.release()
            await put_header(process.store, ONE, TxnState.COMMITTED)
            assert await waits[1] is TxnState.COMMITTED
            other.release()
            assert outcomes.count == 0
            await settle()
            later = outcomes.follow(ONE)
            assert (await later.known()).state is TxnState.COMMITTED

    run(scenario)


def test_there_is_a_limit() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with Outcomes(process.store, process.pace, followed_max=1) as outcomes:
            followed = outcomes.follow(ONE)
            outcomes.follow(ONE).release()
            with pytest.raises(TooManyOpenTransactions, match="FOLLOWED_MAX"):
                outcomes.follow(TWO)
            followed.release()
            assert (await outcomes.follow(TWO).known()).header is None

    run(scenario)


def test_what_cannot_be_watched_is_told_and_the_next_who_asks_begins_anew() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        process.script.fail("watch", AccessDenied("no"))
        async with Outcomes(process.store, process.pace) as outcomes:
            followed = outcomes.follow(ONE)
            for wait in (followed.known(), followed.decided()):
                with pytest.raises(AccessDenied):
                    await wait
            await process.store.put(paths.header_key(TWO), b"{}", partition_key=paths.partition(TWO))
            with pytest.raises(RecordDamaged):
                await outcomes.follow(TWO).known()
            again = outcomes.follow(ONE)
            followed.release()
            assert (await again.known()).header is None

    run(scenario)


def test_at_the_end_those_who_wait_are_told() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await put_header(process.store, ONE)
        outcomes = Outcomes(process.store, process.pace)
        waiting = process.start(outcomes.follow(ONE).decided())
        await settle()
        await outcomes.close()
        with pytest.raises(SegmentUnavailable):
            await waiting
        with pytest.raises(SegmentUnavailable):
            outcomes.follow(TWO)
        await asyncio.sleep(0)

    run(scenario)
