"""List, portrait, statistics: what the doctor finds out about transactions of ours."""

from __future__ import annotations

import pytest
from doctor_stage import BILLS, BROKER, ORDERS, TIMEOUT_MS, Stage
from doctor_vectors import load

from support.world import World, run
from txn.coordinator.collector import RETENTION_MS
from txn.doctor import statistics
from txn.doctor.arguments import STUCK_AFTER_MS
from txn.doctor.drawing import BARS_MAX, LEGEND, draw
from txn.doctor.layout import LAYOUTS, RecordsKind
from txn.doctor.listing import DECIDED, Wanted, list_transactions
from txn.doctor.participation import Participant
from txn.doctor.portrait import EventKind, Portrait, read
from txn.doctor.reading import MixedRecords, Records, detect
from txn.model import paths
from txn.model.header import TxnState
from txn.model.ids import TxnId

BILLING = Participant(ORDERS, "billing")


def staged(world: World) -> tuple[Stage, Records]:
    process = world.process()
    return Stage(process.store, process.pace), Records(process.store, LAYOUTS[RecordsKind.TIDEMARK])


async def portrait_of(records: Records, txn_id: TxnId) -> Portrait:
    found = await read(records, str(txn_id))
    assert found is not None
    return found


def test_the_oldest_come_first_and_the_limit_says_how_many_are_left_out() -> None:
    async def scenario(world: World) -> None:
        stage, records = staged(world)
        begun = []
        for number in range(7):
            # The later, the sooner is the deadline: the index has them in another order than the list.
            begun.append(await stage.begin(timeout_ms=TIMEOUT_MS - 5_000 * number))
            await world.pass_ms(100)
        listing = await list_transactions(records, Wanted(limit=3), world.clock.wall_ms())
        assert [found.row.txn_id for found in listing.found] == [str(each) for each in begun[:3]]
        assert listing.left_out == 4
        whole = await list_transactions(records, Wanted(limit=7), world.clock.wall_ms())
        assert [found.row.txn_id for found in whole.found] == [str(each) for each in begun]
        assert whole.left_out == 0

    run(scenario)


def test_the_list_tells_operations_by_participant() -> None:
    async def scenario(world: World) -> None:
        stage, records = staged(world)
        txn_id = await stage.begin()
        await stage.write(txn_id, entries=3)
        await stage.write(txn_id)
        await stage.write(txn_id, BILLS)
        await stage.acknowledge(txn_id)
        await stage.acknowledge(txn_id, entry=1)
        await world.pass_ms(2_000)
        [found] = (await list_transactions(records, Wanted(), world.clock.wall_ms())).found
        cells = found.cells(world.clock.wall_ms())
        assert (cells["operations"], found.tally.entries, found.tally.acknowledgements) == (5, 5, 2)
        assert cells["segments"] == [BILLS, ORDERS]
        assert cells["subscriptions"] == [f"{ORDERS} (billing)"]
        assert (cells["age_ms"], cells["left_ms"], cells["owner"]) == (2_000, TIMEOUT_MS - 2_000, "ann")

    run(scenario)


def test_the_list_is_chosen_by_state_owner_segment_and_age() -> None:
    async def scenario(world: World) -> None:
        stage, records = staged(world)
        old = await stage.begin()
        await stage.write(old)
        await world.pass_ms(10_000)
        other = await stage.begin(owner="bob")
        await stage.acknowledge(other, BILLS, "audit")
        committed, aborted = await stage.begin(), await stage.begin()
        await stage.write(committed)
        await stage.coordinator.commit(committed, principal="ann")
        await stage.coordinator.abort(aborted, principal="ann")

        async def ids(wanted: Wanted) -> set[str]:
            listing = await list_transactions(records, wanted, world.clock.wall_ms())
            return {found.row.txn_id for found in listing.found}

        every = (TxnState.OPEN, *DECIDED)
        assert await ids(Wanted()) == {str(old), str(other)}
        assert await ids(Wanted((TxnState.COMMITTED,))) == {str(committed)}
        assert await ids(Wanted((TxnState.ABORTED,))) == {str(aborted)}
        assert await ids(Wanted(every)) == {str(old), str(other), str(committed), str(aborted)}
        assert await ids(Wanted(every, owner="bob")) == {str(other)}
        assert await ids(Wanted(older_than_ms=10_000)) == {str(old)}
        assert await ids(Wanted(older_than_ms=10_001)) == set()
        assert await ids(Wanted(every, segment=ORDERS)) == {str(old), str(committed)}
        assert await ids(Wanted(segment=ORDERS)) == {str(old)}
        assert await ids(Wanted(segment=BILLS)) == {str(other)}

    run(scenario)


def test_a_segment_whose_name_begins_like_another_is_another() -> None:
    async def scenario(world: World) -> None:
        stage, records = staged(world)
        one, other = await stage.begin(), await stage.begin()
        await stage.write(one, "s")
        await stage.write(other, "s-1")
        await stage.acknowledge(other, "s-1", "a")
        listing = await list_transactions(records, Wanted(segment="s"), world.clock.wall_ms())
        assert [found.row.txn_id for found in listing.found] == [str(one)]

    run(scenario)


def test_the_events_of_a_transaction_from_its_begin_to_its_collection() -> None:
    async def scenario(world: World) -> None:
        stage, records = staged(world)
        txn_id = await stage.begin()
        begun_ms = world.clock.wall_ms()
        await world.pass_ms(100)
        await stage.write(txn_id)
        await world.pass_ms(200)
        await stage.write(txn_id)
        await stage.acknowledge(txn_id)
        await world.pass_ms(300)
        before = await portrait_of(records, txn_id)
        assert before.collectable_ms is None
        assert before.collection_text(world.clock.wall_ms()) == "after the decision"
        await stage.coordinator.commit(txn_id, principal="ann")
        await world.pass_ms(50)
        await stage.apply(txn_id)
        await world.pass_ms(50)
        half = await portrait_of(records, txn_id)
        assert "participants that are left (1)" in half.collection_text(world.clock.wall_ms())
        await stage.apply(txn_id, subscription="billing")

        portrait = await portrait_of(records, txn_id)
        found = [(event.at_ms - begun_ms, event.kind, event.participant) for event in portrait.events()]
        writes = Participant(ORDERS)
        assert found == [
            (0, EventKind.BEGUN, None),
            (100, EventKind.FIRST_OPERATION, writes),
            (300, EventKind.FIRST_OPERATION, BILLING),
            (300, EventKind.LAST_OPERATION, writes),
            (600, EventKind.DECIDED, None),
            (650, EventKind.APPLIED, writes),
            (700, EventKind.APPLIED, BILLING),
        ]
        assert portrait.events()[4].detail == "COMMITTED by its client"
        assert portrait.events()[5].detail == f"by {BROKER}, term 3"
        assert portrait.collectable_ms == begun_ms + 600 + RETENTION_MS
        assert portrait.collection_text(begun_ms + 600) == "in 1m00s"
        assert "now" in portrait.collection_text(begun_ms + 600 + RETENTION_MS)

    run(scenario)


def test_a_transaction_without_a_header_has_no_portrait() -> None:
    async def scenario(world: World) -> None:
        _, records = staged(world)
        assert await read(records, "md_0_5") is None

    run(scenario)


def test_the_picture_is_to_scale() -> None:
    async def scenario(world: World) -> None:
        stage, records = staged(world)
        txn_id = await stage.begin()
        await world.pass_ms(1_000)
        await stage.write(txn_id, "a")
        await world.pass_ms(1_000)
        await stage.write(txn_id, "a")
        await world.pass_ms(2_000)
        undecided = await portrait_of(records, txn_id)
        assert draw(undecided, world.clock.wall_ms(), 41) == [
            "             0                 +2.0s             +4.0s",
            f"transaction  {'=' * 40}>",
            f"a            {' ' * 10}{'#' * 11}{'-' * 19}>",
            LEGEND,
        ]
        await stage.coordinator.commit(txn_id, principal="ann")
        await world.pass_ms(4_000)
        late = await portrait_of(records, txn_id)
        committed = f"transaction  {'=' * 20}C"
        decided = f"a            {' ' * 5}{'#' * 6}{'-' * 9}{'~' * 20}"
        assert draw(late, world.clock.wall_ms(), 41)[1:3] == [committed, f"{decided}>"]
        await stage.apply(txn_id, "a")
        await world.pass_ms(60_000)
        done = await portrait_of(records, txn_id)
        assert draw(done, world.clock.wall_ms(), 41)[1:3] == [committed, f"{decided}*"]

    run(scenario)


def test_a_picture_has_a_bounded_number_of_bars() -> None:
    async def scenario(world: World) -> None:
        stage, records = staged(world)
        txn_id = await stage.begin()
        for number in range(BARS_MAX + 2):
            await stage.write(txn_id, f"segment-{number}-{'x' * 40}")
        lines = draw(await portrait_of(records, txn_id), world.clock.wall_ms())
        assert len(lines) == BARS_MAX + 4
        assert "2 more participants" in lines[-2]
        assert all(len(line) < 120 for line in lines)

    run(scenario)


def test_statistics() -> None:
    async def scenario(world: World) -> None:
        stage, records = staged(world)
        stuck, applied = await stage.begin(), await stage.begin()
        for txn_id in (stuck, applied):
            await stage.write(txn_id)
            await stage.coordinator.commit(txn_id, principal="ann")
        await stage.apply(applied)
        await stage.note_aborted(applied, 0, 1)
        await world.pass_ms(STUCK_AFTER_MS)
        expired = await stage.begin(owner="bob", timeout_ms=1)
        await stage.write(expired)
        orphan = TxnId(0, 999)
        await stage.write(orphan, BILLS)
        await world.pass_ms(1)
        nobody = await stage.begin(owner=None)
        fresh = await stage.begin()
        await stage.write(fresh, BILLS)
        await stage.coordinator.abort(fresh, principal="ann")

        found = await statistics.gather(records, world.clock.wall_ms())
        assert found.states == {TxnState.OPEN: 2, TxnState.COMMITTED: 2, TxnState.ABORTED: 1}
        assert found.owners == {"bob": 1, None: 1}
        assert found.oldest_open is not None
        assert found.oldest_open.txn_id == str(expired) != str(nobody)
        assert (found.expired, found.operations, found.unapplied, found.orphans) == (1, 4, 2, 1)
        assert found.aborted == {ORDERS: 1}
        assert list(found.stuck) == [Participant(ORDERS)]
        assert found.stuck_operations[Participant(ORDERS)] == 1
        assert records.odd == []

    run(scenario)


def test_odd_records_are_named_and_left_out() -> None:
    async def scenario(world: World) -> None:
        stage, records = staged(world)
        txn_id = await stage.begin()
        odd = paths.header_key(TxnId(0, 7))
        await stage.store.put(odd, b"{}", partition_key="md_0_7", indexes=[(paths.BY_DEADLINE, paths.deadline_key(5))])
        listing = await list_transactions(records, Wanted(), world.clock.wall_ms())
        assert [found.row.txn_id for found in listing.found] == [str(txn_id)]
        assert records.odd_count == 1
        assert records.odd[0].key == odd
        assert "format" in records.odd[0].reason

    run(scenario)


def test_whose_records_a_store_holds_is_found_out() -> None:
    async def scenario(world: World) -> None:
        stage, _ = staged(world)
        assert (await detect(stage.store)).kind is RecordsKind.TIDEMARK
        await load(stage.store, "03-a-open")
        assert (await detect(stage.store)).kind is RecordsKind.PULSAR
        await stage.begin()
        with pytest.raises(MixedRecords, match="--records"):
            await detect(stage.store)

    run(scenario)
