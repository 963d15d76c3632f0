"""Headers and operations: what is written is read again, and what makes no sense is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.interface import exactly
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.model.header import Cause, Header, TxnState
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position

times = st.integers(0, 10**15)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
open_headers = st.builds(Header, st.just(TxnState.OPEN), times, times, st.none() | names)
positions = st.builds(Position, st.integers(0, 10**12), st.integers(0, 10**12))


@st.composite
def decided_headers(draw: st.DrawFn) -> Header:
    state = draw(st.sampled_from([TxnState.COMMITTED, TxnState.ABORTED]))
    return draw(open_headers).decided(state, draw(st.sampled_from(Cause)), draw(times))


@st.composite
def writes(draw: st.DrawFn) -> Operation:
    first = draw(positions)
    count = draw(st.integers(0, 100))
    last = Position(first.ledger, first.entry + count) if count else None
    return Operation(OperationKind.WRITE, draw(names), first, last, broker=draw(names), term=draw(times), written_ms=1)


@st.composite
def acknowledgements(draw: st.DrawFn) -> Operation:
    size = draw(st.integers(0, 10))
    batch = tuple(sorted(draw(st.sets(st.integers(0, size - 1))))) if size else ()
    return Operation(
        OperationKind.ACK,
        draw(names),
        draw(positions),
        subscription=draw(names),
        is_cumulative=draw(st.booleans()),
        batch=batch,
        batch_size=size,
    )


@given(open_headers | decided_headers())
def test_a_header_is_read_as_it_was_written(header: Header) -> None:
    assert Header.decode(header.encode()) == header


@given(writes() | acknowledgements())
def test_an_operation_is_read_as_it_was_written(operation: Operation) -> None:
    assert Operation.decode(operation.encode()) == operation


WRITTEN_BEFORE = {
    "format": 1,
    "kind": "write",
    "segment": "segment://s",
    "position": "1:2",
    "broker": "b",
    "term": 3,
    "written_ms": 4,
}
"""An operation as the first version wrote them."""


def test_operations_of_the_first_version_are_read() -> None:
    write = Operation(OperationKind.WRITE, "segment://s", Position(1, 2), broker="b", term=3, written_ms=4)
    assert Operation.decode(json.dumps(WRITTEN_BEFORE).encode()) == write
    acknowledgement = {
        "kind": "ack",
        "subscription": "s",
        "cumulative": True,
        "batch": [1],
        "batch_size": 2,
    }
    assert Operation.decode(json.dumps(WRITTEN_BEFORE | acknowledgement).encode()) == replace(
        write, kind=OperationKind.ACK, subscription="s", is_cumulative=True, batch=(1,), batch_size=2
    )


@given(writes() | acknowledgements(), st.data())
def test_a_damaged_operation_is_refused_or_means_something(operation: Operation, data: st.DataObject) -> None:
    value = bytearray(operation.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    length = data.draw(st.integers(1, len(value)))
    try:
        found = Operation.decode(bytes(value[:length]))
    except RecordDamaged:
        return
    assert Operation.decode(found.encode()) == found


@given(decided_headers())
def test_a_decision_never_precedes_the_beginning(header: Header) -> None:
    assert header.finalized_ms is not None
    assert header.finalized_ms >= header.created_ms


def test_a_header_is_in_one_of_the_two_indexes() -> None:
    header = Header(TxnState.OPEN, 5, 105)
    assert header.indexes() == (("txn-by-deadline", "00000000000000000105"),)
    ended = header.decided(TxnState.ABORTED, Cause.DEADLINE, 106)
    assert ended.indexes() == (("txn-by-final-state", "ABORTED:00000000000000000106"),)


def test_operations_are_indexed_by_whom_they_concern() -> None:
    write = Operation(OperationKind.WRITE, "segment://t/n/x/0", Position(1, 2))
    ack = Operation(OperationKind.ACK, "segment://t/n/x/0", Position(1, 2), subscription="a:b")
    assert write.indexes() == (("writes-by-segment", "segment%3A%2F%2Ft%2Fn%2Fx%2F0"),)
    assert ack.indexes() == (("acks-by-segment-subscription", "segment%3A%2F%2Ft%2Fn%2Fx%2F0:a%3Ab"),)


@given(names, names, names, names)
def test_no_two_subscriptions_share_a_secondary_key(segment: str, name: str, other: str, other_name: str) -> None:
    same = (segment, name) == (other, other_name)
    key = paths.subscription_key(segment, name)
    assert (key == paths.subscription_key(other, other_name)) == same
    assert not (exactly(key).start <= paths.subscription_key(other, other_name) < exactly(key).end) or same


def test_every_record_of_a_transaction_names_it() -> None:
    txn_id = TxnId(3, 17)
    assert paths.header_key(txn_id) == "/txn/md_3_17"
    assert paths.operation_sequence(txn_id) == "/txn-op/md_3_17/"
    assert paths.txn_id_of_key(paths.header_key(txn_id)) == txn_id
    assert paths.txn_id_of_key(paths.operation_sequence(txn_id) + f"-{1:020}") == txn_id


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": "1"},
        {"state": "COMMITTING"},
        {"state": "COMMITTED"},
        {"created_ms": None},
        {"finalized_ms": 7},
        {"cause": "boredom"},
    ],
)
def test_a_header_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    fields = json.loads(Header(TxnState.OPEN, 5, 105).encode()) | change
    with pytest.raises(RecordDamaged):
        Header.decode(json.dumps(fields).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"kind": "read"},
        {"kind": "ack"},
        {"subscription": "s"},
        {"position": "1"},
        {"position": "1:-2"},
        {"last": "1:1"},
        {"last": "2:9"},
        {"cumulative": True},
        {"batch": [1], "batch_size": 1},
    ],
)
def test_an_operation_in_json_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    fields = WRITTEN_BEFORE | change
    with pytest.raises(RecordDamaged):
        Operation.decode(json.dumps(fields).encode())


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b"\xff", b"1"])
def test_what_is_no_record_is_refused(value: bytes) -> None:
    for decode in (Header.decode, Operation.decode):
        with pytest.raises(RecordDamaged):
            decode(value)


def test_fields_of_a_later_version_are_ignored() -> None:
    header = Header(TxnState.OPEN, 5, 105)
    fields = json.loads(header.encode()) | {"colour": "blue"}
    assert Header.decode(json.dumps(fields).encode()) == header
