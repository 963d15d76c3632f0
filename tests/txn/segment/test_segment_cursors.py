"""Cursors beside a model that is a set of acknowledged messages."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txn.model.errors import RecordDamaged
from txn.model.position import Position
from txn.segment.cursor import BATCH_SIZE_MAX, CURSOR_BYTES_MAX, FORMAT, Ack, AckedRange, BatchBits, CursorState
from txn.segment.errors import CursorTooLarge, InvalidAck
from txn.segment.log import LedgerLength, LedgerLengths

LENGTHS = LedgerLengths((LedgerLength(2, 4), LedgerLength(3, 3), LedgerLength(7, 6)))
TRIMMED = LedgerLengths(LENGTHS.ledgers[1:], Position(3, 1))
ENTRIES = [Position(ledger, entry) for ledger, length in LENGTHS.ledgers for entry in range(length)]


def batch_size(position: Position) -> int:
    """Every entry has its own, from a single message to several."""
    return 1 + (3 * position.ledger + position.entry) % 4


MESSAGES = [(position, index) for position in ENTRIES for index in range(batch_size(position))]
Messages = set[tuple[Position, int]]


@st.composite
def acks(draw: st.DrawFn) -> Ack:
    position = draw(st.sampled_from(ENTRIES))
    size = batch_size(position)
    batch = draw(st.lists(st.integers(0, size - 1), max_size=size))
    return Ack(position, draw(st.sampled_from([False, False, True])), tuple(batch), size)


def modelled(ack: Ack) -> Messages:
    """The messages that an acknowledgement is about."""
    own = {(ack.position, index) for index in (ack.batch or range(ack.batch_size))}
    if not ack.is_cumulative:
        return own
    last = max(index for _, index in own)
    return {message for message in MESSAGES if message <= (ack.position, last)}


def check(state: CursorState, model: Messages) -> None:
    for position in ENTRIES:
        indexes = range(batch_size(position))
        assert state.is_acknowledged(position) == all((position, index) in model for index in indexes)
        for index in indexes:
            assert state.is_acknowledged(position, index) == ((position, index) in model)
    open_entries = [position for position in ENTRIES if not state.is_acknowledged(position)]
    assert state.mark == (open_entries[0] if open_entries else LENGTHS.end)
    assert CursorState.decode(state.encode()) == state


@given(st.lists(st.lists(acks(), max_size=4), max_size=8))
def test_a_cursor_acknowledges_what_the_model_does(steps: list[list[Ack]]) -> None:
    state, model = CursorState(), set[tuple[Position, int]]()
    for step in steps:
        before = state
        encoded = before.encode()
        state = state.acknowledge(step, LENGTHS)
        model.update(*map(modelled, step))
        check(state, model)
        assert before.encode() == encoded, "cursors are values"


@given(st.lists(acks(), max_size=12), st.randoms())
def test_the_order_of_acknowledgements_makes_no_difference(given_acks: list[Ack], choice: st.DataObject) -> None:
    shuffled = list(given_acks)
    choice.shuffle(shuffled)  # type: ignore[attr-defined]
    one_by_one = CursorState()
    for ack in shuffled:
        one_by_one = one_by_one.acknowledge([ack], LENGTHS)
    assert one_by_one.normalise(LENGTHS) == CursorState().acknowledge(given_acks, LENGTHS)


@given(st.lists(acks(), max_size=8), st.lists(acks(), max_size=8))
def test_merging_acknowledges_what_both_do_together(left: list[Ack], right: list[Ack]) -> None:
    one, other = CursorState().acknowledge(left, LENGTHS), CursorState().acknowledge(right, LENGTHS)
    both = one.merge(other, LENGTHS)
    assert both == other.merge(one, LENGTHS) == CursorState().acknowledge([*left, *right], LENGTHS)
    assert both.merge(one, LENGTHS) == both


@given(st.lists(acks(), max_size=12))
def test_what_is_trimmed_counts_as_acknowledged(given_acks: list[Ack]) -> None:
    state = CursorState().acknowledge(given_acks, LENGTHS)
    trimmed = state.normalise(TRIMMED)
    assert trimmed == CursorState().acknowledge(given_acks, TRIMMED)
    assert trimmed.mark >= Position(3, 1)
    for position in ENTRIES:
        assert trimmed.is_acknowledged(position) == (position < Position(3, 1) or state.is_acknowledged(position))


def test_neighbours_are_found_when_a_ledger_is_closed() -> None:
    while_open = LedgerLengths((LedgerLength(2, 4),))
    state = CursorState().acknowledge([Ack(Position(2, 2)), Ack(Position(2, 3))], while_open)
    assert state == CursorState(Position(2, 0), (AckedRange(Position(2, 2), Position(2, 4)),))
    closed = state.acknowledge([Ack(Position(3, 0))], LENGTHS)
    assert closed.ranges == (AckedRange(Position(2, 2), Position(3, 1)),)
    whole = closed.acknowledge([Ack(Position(2, 1), is_cumulative=True)], LENGTHS)
    assert (whole.mark, whole.ranges) == (Position(3, 1), ())


def test_a_batch_is_acknowledged_when_its_last_message_is() -> None:
    position = Position(2, 1)
    state = CursorState().acknowledge([Ack(position, batch=(0, 2), batch_size=3)], LENGTHS)
    assert state.batches == {position: BatchBits(3, 0b101)}
    assert not state.is_acknowledged(position)
    state = state.acknowledge([Ack(position, batch=(1,), batch_size=3)], LENGTHS)
    assert (state.batches, state.ranges) == ({}, (AckedRange(position, Position(2, 2)),))
    cumulative = CursorState().acknowledge([Ack(position, True, (1,), 3)], LENGTHS)
    assert (cumulative.mark, cumulative.batches) == (position, {position: BatchBits(3, 0b011)})


@pytest.mark.parametrize("position", [Position(2, 4), Position(5, 0), Position(7, 6), Position(9, 0), Position(0, 0)])
@pytest.mark.parametrize("is_cumulative", [False, True])
def test_what_is_no_entry_cannot_be_acknowledged(position: Position, is_cumulative: bool) -> None:
    with pytest.raises(InvalidAck, match=str(position)):
        CursorState().acknowledge([Ack(position, is_cumulative)], LENGTHS)


def test_messages_that_no_batch_has_cannot_be_acknowledged() -> None:
    for batch, size in (((3,), 3), ((-1,), 3), ((0,), 0)):
        with pytest.raises(InvalidAck):
            Ack(Position(2, 0), batch=batch, batch_size=size)
    Ack(Position(2, 0), batch=(0,), batch_size=BATCH_SIZE_MAX)
    with pytest.raises(InvalidAck, match="BATCH_SIZE_MAX"):
        Ack(Position(2, 0), batch=(0,), batch_size=BATCH_SIZE_MAX + 1)
    state = CursorState().acknowledge([Ack(Position(2, 0), batch=(0,), batch_size=3)], LENGTHS)
    with pytest.raises(InvalidAck, match="has 3 messages, not 4"):
        state.acknowledge([Ack(Position(2, 0), batch=(0,), batch_size=4)], LENGTHS)


@pytest.mark.parametrize("batch", [(), (1,)])
def test_a_cursor_is_bounded_and_fits_its_bound(batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    assert CURSOR_BYTES_MAX < 1 << 20, "what the smallest of all stores takes"
    bytes_max = 50_000
    monkeypatch.setattr("txn.segment.cursor.CURSOR_BYTES_MAX", bytes_max)
    ledger, count = 10**18, 2_000
    lengths = LedgerLengths((LedgerLength(ledger, 10**18),))
    acks = [Ack(Position(ledger, 10**17 + 2 * number), batch=batch, batch_size=8) for number in range(count)]
    fits, exceeds = 0, count
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        try:
            state = CursorState().acknowledge(acks[:middle], lengths)
        except CursorTooLarge:
            exceeds = middle
        else:
            fits = middle
            assert len(state.encode()) <= bytes_max
    assert fits > 500
    state = CursorState().acknowledge(acks[:fits], lengths)
    with pytest.raises(CursorTooLarge, match=r"CURSOR_BYTES_MAX.*older entries first"):
        state.acknowledge([acks[fits]], lengths)
    assert state.acknowledge([Ack(acks[fits].position, is_cumulative=True)], lengths).ranges == ()


def test_the_record_is_as_it_always_was() -> None:
    """Cursors outlive the version that wrote them."""
    state = CursorState(
        Position(2, 1), (AckedRange(Position(2, 3), Position(3, 1)),), {Position(7, 2): BatchBits(9, 0b100000001)}
    )
    value = b'{"format":1,"mark":"2:1","ranges":[["2:3","3:1"]],"batches":[["7:2",9,"101"]]}'
    assert state.encode() == value
    assert CursorState.decode(value) == state


@pytest.mark.parametrize(
    "damage",
    [
        lambda fields: fields.pop("mark"),
        lambda fields: fields.update(mark="2"),
        lambda fields: fields.update(format=FORMAT + 1),
        lambda fields: fields.update(mark="2:3"),
        lambda fields: fields.update(ranges=[["2:3", "2:3"]]),
        lambda fields: fields.update(ranges=[["2:3", "2:4"], ["2:4", "2:5"]]),
        lambda fields: fields.update(ranges=[["2:3"]]),
        lambda fields: fields.update(batches=[["7:2", 2, "3"]]),
        lambda fields: fields.update(batches=[["7:2", 2, "0"]]),
        lambda fields: fields.update(batches=[["7:2", 2, "-1"]]),
        lambda fields: fields.update(batches=[["2:3", 2, "1"]]),
        lambda fields: fields.update(batches=[["7:2", BATCH_SIZE_MAX + 1, "1"]]),
    ],
)
def test_a_record_that_no_version_wrote_is_damage(damage: Callable[[dict[str, object]], object]) -> None:
    fields = json.loads(CursorState(Position(2, 1), (AckedRange(Position(2, 3), Position(3, 1)),)).encode())
    damage(fields)
    with pytest.raises(RecordDamaged):
        CursorState.decode(json.dumps(fields).encode())
