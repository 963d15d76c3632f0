"""Records of earlier owners that were never a promise: told by what later owners have accepted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subscription_model import NONE, AcksModel, Messages
from subscription_world import (
    SEGMENT,
    SHARED,
    Owner,
    abort,
    begin,
    commit,
    every_store,
    records,
    run_owned,
    taken,
    up_to,
    whole,
)

from support.world import World, settle
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TxnConflict
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.subscription.lateness import Lateness, RecordedAck, late_among

SIZES = {Position(1, entry): size for entry, size in enumerate((1, 2, 1))}
TXNS = [TxnId(0, number) for number in range(3)]


@st.composite
def acks(draw: st.DrawFn) -> Ack:
    position = draw(st.sampled_from(list(SIZES)))
    size = SIZES[position]
    batch = draw(st.lists(st.integers(0, size - 1), max_size=size, unique=True)) if size > 1 else ()
    return Ack(position, draw(st.sampled_from([False, False, True])), tuple(batch), size)


class Owners:
    """What a row of owners accepts, by the model; what one has accepted and not promised the next one does not know."""

    def __init__(self) -> None:
        self.term = 1
        self.model = AcksModel(SIZES)
        self.found: list[RecordedAck] = []
        self.unpromised: set[str] = set()
        self.ended: dict[TxnId, bool] = {}
        self._events: list[tuple[str, TxnId, Ack | bool]] = []

    def acknowledge(self, txn_id: TxnId, ack: Ack, is_promised: bool) -> None:
        if txn_id in self.ended or not self.model.may(txn_id, ack):
            return
        key = f"{len(self.found)}"
        self.found.append(RecordedAck(key, txn_id, self.term, ack))
        self.model.acknowledge(txn_id, ack)
        self._events.append((key, txn_id, ack))
        if not is_promised:
            self.unpromised.add(key)

    def end(self, txn_id: TxnId, is_committed: bool) -> None:
        if self.ended.setdefault(txn_id, is_committed) is is_committed:
            self.model.end(txn_id, is_committed=is_committed)
            self._events.append(("", txn_id, is_committed))

    def take_over(self) -> None:
        self.term += 1
        self.model = AcksModel(SIZES)
        self._events = [each for each in self._events if each[0] not in self.unpromised]
        for _, txn_id, event in self._events:
            if isinstance(event, bool):
                self.model.end(txn_id, is_committed=event)
            else:
                self.model.acknowledge(txn_id, event)


acknowledged = st.tuples(st.sampled_from(TXNS), acks(), st.booleans())
ended = st.tuples(st.sampled_from(TXNS), st.booleans())
terms = st.lists(st.lists(st.one_of(acknowledged, acknowledged, ended), min_size=1, max_size=5), min_size=2, max_size=3)


@settings(max_examples=400)
@given(terms)
def test_what_was_promised_is_never_late_and_what_another_one_has_meanwhile_is(
    script: list[list[tuple[TxnId, Ack, bool] | tuple[TxnId, bool]]],
) -> None:
    owners = Owners()
    for events in script:
        for event in events:
            if len(event) == 3:
                owners.acknowledge(*event)
            else:
                owners.end(*event)
        owners.take_over()
    late = {
        each.key
        for each, lateness in late_among(owners.found)
        if lateness is Lateness.CERTAIN or each.txn_id not in owners.ended
    }
    for each in owners.found:
        if each.key in owners.unpromised:
            taken_by_others = owners.model.others(each.txn_id) & owners.model.about(each.ack)
            if each.txn_id not in owners.ended and taken_by_others & later(owners, each):
                assert each.key in late, f"{each} has come behind what others were given"
        elif each.key in late:
            assert owners.ended.get(each.txn_id) is False, f"{each} was promised"


def later(owners: Owners, recorded: RecordedAck) -> Messages:
    """What later owners have accepted of others."""
    others = [each for each in owners.found if each.term > recorded.term and each.txn_id != recorded.txn_id]
    return NONE.union(*(owners.model.about(each.ack) for each in others))


@every_store
@pytest.mark.parametrize("is_up_to", [False, True], ids=["entry", "cumulative"])
@pytest.mark.parametrize("others_up_to", [False, True], ids=["entry", "cumulative"])
def test_a_record_that_comes_between_two_owners_promises_nothing(
    lacks: tuple[str, ...], is_up_to: bool, others_up_to: bool
) -> None:
    """Else its transaction would be told that it has what another one got meanwhile, and both would commit."""

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(3)
        wanted = up_to(positions[1]) if is_up_to else whole([positions[1]])
        others = up_to(positions[1]) if others_up_to else whole([positions[1]])
        late, other = await begin(world, 1), await begin(world, 2)
        gate = owner.process.script.hold("put" if lacks else "transact", prefix="/txn-op/")
        asked = owner.process.start(subscription.acknowledge(wanted, late))
        await gate.arrived()
        await owner.grant.release()
        successor = await Owner.take(world)
        await (await successor.recover()).acknowledge(others, other)
        await successor.die()
        gate.release()
        with pytest.raises(SegmentUnavailable, match="not known"):
            await asked
        await settle()
        assert len(await records(world)) == 2
        last = await Owner.take(world)
        found = await last.recover()
        assert found.stats.pending == {other: 1}
        assert len(await records(world)) == 1
        with pytest.raises(TxnConflict, match=f"{other} holds"):
            await found.acknowledge(wanted, late)
        await commit(world, other)
        await commit(world, late)
        assert await records(world) == []
        assert await taken(found.attach("one", SHARED)) == (positions[2:] if others_up_to else positions[::2])
        await last.die()

    run_owned(scenario, lacks)


@every_store
def test_what_was_committed_before_everything_up_to_further_on_stays(lacks: tuple[str, ...]) -> None:
    """Not even the cursor had it when the owner died that had accepted the later one."""

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(3)
        first, second = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(up_to(positions[0]), first)
        await owner.die()
        successor = await Owner.take(world)
        after = await successor.recover()
        successor.process.script.hold("put" if lacks else "transact", prefix=paths.cursors_path(SEGMENT))
        await commit(world, first)
        await after.acknowledge(up_to(positions[1]), second)
        await successor.die()
        last = await Owner.take(world)
        found = await last.recover()
        await abort(world, second)
        assert await taken(found.attach("one", SHARED)) == positions[1:]
        await last.die()

    run_owned(scenario, lacks)
