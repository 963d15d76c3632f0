"""Who may acknowledge what: every form of acknowledgement against every other, in both orders, by a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subscription_model import AcksModel

from txn.model.errors import TxnConflict, TxnError
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import CURSOR_BYTES_MAX, Ack, CursorState
from txn.segment.errors import CursorTooLarge
from txn.segment.log import LedgerLength, LedgerLengths
from txn.segment.subscription import pending as pending_module
from txn.segment.subscription.claims import WHOLE, Claims
from txn.segment.subscription.pending import PendingAcks

LENGTHS = LedgerLengths((LedgerLength(1, 3), LedgerLength(4, 3)))
ENTRIES = [Position(ledger, entry) for ledger, length in LENGTHS.ledgers for entry in range(length)]
TXNS = [TxnId(0, number) for number in range(3)]


def size_of(position: Position) -> int:
    return 1 + (position.ledger + position.entry) % 3


SIZES = {position: size_of(position) for position in ENTRIES}


@st.composite
def acks(draw: st.DrawFn) -> Ack:
    position = draw(st.sampled_from(ENTRIES))
    size = size_of(position)
    batch = draw(st.lists(st.integers(0, size - 1), max_size=size, unique=True))
    return Ack(position, draw(st.sampled_from([False, False, True])), tuple(batch), size)


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(TXNS), acks()),
        st.tuples(st.none(), acks()),
        st.tuples(st.sampled_from(TXNS), st.booleans()),
    ),
    max_size=14,
)


@given(steps)
def test_conflicts_are_those_of_the_messages(script: list[tuple[TxnId | None, Ack | bool]]) -> None:
    pending, cursor, model = PendingAcks(), CursorState(), AcksModel(SIZES)
    for txn_id, step in script:
        if isinstance(step, bool):
            assert txn_id is not None
            claims = pending.let_go(txn_id)
            model.end(txn_id, is_committed=step)
            if step:
                cursor = cursor.acknowledge(claims.acks(), LENGTHS)
        else:
            assert may_acknowledge(pending, txn_id, step, cursor) == model.may(txn_id, step), f"{txn_id}: {step}"
            if model.may(txn_id, step):
                model.acknowledge(txn_id, step)
                if txn_id is None:
                    cursor = cursor.acknowledge([step], LENGTHS)
                else:
                    pending.hold(txn_id, pending.judge(txn_id, [step], cursor, 0), Claims())
        _compare(pending, cursor, model)


def may_acknowledge(pending: PendingAcks, txn_id: TxnId | None, ack: Ack, cursor: CursorState) -> bool:
    try:
        if txn_id is None:
            pending.judge_plain([ack], cursor)
        else:
            pending.judge(txn_id, [ack], cursor, 0)
    except TxnConflict:
        return False
    return True


def _compare(pending: PendingAcks, cursor: CursorState, model: AcksModel) -> None:
    held = model.others(None)
    for position, index in model.everything:
        is_acknowledged = (position, index) in model.acknowledged
        assert cursor.is_acknowledged(position, index) == is_acknowledged
        if not is_acknowledged:
            share = pending.share(position)
            assert bool(share.bits >> index & 1) == ((position, index) in held), f"{position} {index}"
    merged = cursor.acknowledge([ack for txn_id in model.held for ack in _held(pending, txn_id)], LENGTHS)
    assert merged.weight <= cursor.weight + pending.weight, "room was reserved"


def _held(pending: PendingAcks, txn_id: TxnId) -> list[Ack]:
    claims = pending.let_go(txn_id)
    found = list(claims.acks())
    pending.hold(txn_id, found, Claims())
    return found


ENTRY, LATER = ENTRIES[1], ENTRIES[2]
ONE, OTHER = TXNS[0], TXNS[1]


@pytest.mark.parametrize(
    ("first", "second", "meets"),
    [
        (Ack(ENTRY), Ack(ENTRY), True),
        (Ack(ENTRY), Ack(LATER), False),
        (Ack(ENTRY), Ack(ENTRY, batch=(0,), batch_size=3), True),
        (Ack(ENTRY, batch=(0,), batch_size=3), Ack(ENTRY, batch=(0, 1), batch_size=3), True),
        (Ack(ENTRY, batch=(0,), batch_size=3), Ack(ENTRY, batch=(1, 2), batch_size=3), False),
        (Ack(ENTRY), Ack(LATER, True), True),
        (Ack(LATER), Ack(ENTRY, True), False),
        (Ack(ENTRY, batch=(2,), batch_size=3), Ack(ENTRY, True, (1,), 3), False),
        (Ack(ENTRY, batch=(1,), batch_size=3), Ack(ENTRY, True, (1,), 3), True),
        (Ack(ENTRY, True), Ack(LATER, True), True),
    ],
)
def test_of_two_that_meet_the_second_is_refused_in_either_order(first: Ack, second: Ack, meets: bool) -> None:
    for one, other in ((first, second), (second, first)):
        pending = PendingAcks()
        pending.hold(ONE, pending.judge(ONE, [one], CursorState(), 0), Claims())
        assert pending.judge(ONE, [one], CursorState(), 0) == [], "one's own again is nothing new"
        assert may_acknowledge(pending, OTHER, other, CursorState()) != meets
        assert may_acknowledge(pending, None, other, CursorState()) != meets


def test_what_is_acknowledged_for_good_is_nobodys_in_a_transaction() -> None:
    cursor = CursorState().acknowledge([Ack(ENTRIES[0]), Ack(LATER)], LENGTHS)
    pending = PendingAcks()
    for ack in (Ack(ENTRIES[0]), Ack(LATER), Ack(ENTRIES[0], True)):
        with pytest.raises(TxnConflict, match="already"):
            pending.judge(ONE, [ack], cursor, 0)
        pending.judge_plain([ack], cursor)
    assert pending.judge(ONE, [Ack(LATER, True)], cursor, 0), "something is left up to there"


def test_a_transaction_holds_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_module, "CLAIMS_MAX", 3)
    pending = PendingAcks()
    pending.hold(ONE, pending.judge(ONE, [Ack(each) for each in ENTRIES[:3]], CursorState(), 0), Claims())
    with pytest.raises(TxnError, match="CLAIMS_MAX"):
        pending.judge(ONE, [Ack(ENTRIES[3])], CursorState(), 0)
    assert pending.judge(ONE, [Ack(ENTRIES[2])], CursorState(), 0) == []


def test_room_in_the_cursor_is_reserved_and_rows_take_little_of_it() -> None:
    row = Claims()
    for entry in [*range(0, 50_000, 2), *range(1, 50_000, 2)]:
        row.add(Ack(Position(1, entry)))
    assert row.weight < 200
    assert row.share(Position(1, 3)) == WHOLE
    pending = PendingAcks()
    many = [Ack(Position(1, 2 * entry)) for entry in range(CURSOR_BYTES_MAX // 88 - 10)]
    pending.hold(ONE, pending.judge(ONE, many, CursorState(), 0), Claims())
    with pytest.raises(CursorTooLarge):
        pending.judge(OTHER, [Ack(Position(1, 2 * entry + 100_001)) for entry in range(20)], CursorState(), 0)
    pending.let_go(ONE)
    assert pending.weight == 0
    assert not pending
