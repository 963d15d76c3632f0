"""The decoder of our records, and both decoders on whatever bytes there may be."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txn.decoding import pulsar, tidemark
from txn.decoding.fields import TIME_MS_MAX
from txn.decoding.rows import (
    AbortedRow,
    AppliedRow,
    EventRow,
    OddRow,
    OperationRow,
    SilentRow,
    TransactionRow,
    WatermarkRow,
)
from txn.model import paths
from txn.model.aborted import AbortedRange
from txn.model.applied import Applied
from txn.model.header import Cause, Header, TxnState
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position

TIMES = st.integers(0, TIME_MS_MAX)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
IDS = st.builds(TxnId, st.integers(0, (1 << 16) - 1), st.integers(0, (1 << 63) - 1))
POSITIONS = st.builds(Position, st.integers(0, 10**18), st.integers(0, 10**18))
NUMBER = "-00000000000000000007"


@st.composite
def headers(draw: st.DrawFn) -> Header:
    opened = Header(TxnState.OPEN, draw(TIMES), draw(TIMES), draw(st.none() | NAMES))
    if draw(st.booleans()):
        return opened
    state = draw(st.sampled_from([TxnState.COMMITTED, TxnState.ABORTED]))
    return opened.decided(state, draw(st.sampled_from(Cause)), draw(TIMES))


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    position, segment = draw(POSITIONS), draw(NAMES)
    operation = Operation(
        OperationKind.WRITE,
        segment,
        position,
        broker=draw(NAMES),
        term=draw(st.integers(0, 10**18)),
        written_ms=draw(TIMES),
    )
    if draw(st.booleans()):
        last = Position(position.ledger, position.entry + draw(st.integers(0, 10**6)))
        return replace(operation, last=draw(st.none() | st.just(last)))
    size = draw(st.integers(0, 5))
    return replace(
        operation,
        kind=OperationKind.ACK,
        subscription=draw(NAMES),
        is_cumulative=draw(st.booleans()),
        batch=tuple(sorted(draw(st.sets(st.integers(0, size - 1))))) if size else (),
        batch_size=size,
    )


@given(IDS, headers())
def test_a_header_comes_back_as_a_row(txn_id: TxnId, header: Header) -> None:
    key = paths.header_key(txn_id)
    assert tidemark.decode(key, header.encode(), 1, 2) == TransactionRow(
        key,
        str(txn_id),
        header.state,
        header.created_ms,
        header.timeout_ms,
        header.finalized_ms,
        header.owner,
        header.cause,
    )


@given(IDS, operations())
def test_an_operation_comes_back_as_a_row(txn_id: TxnId, operation: Operation) -> None:
    key = paths.operation_sequence(txn_id) + NUMBER
    row = tidemark.decode(key, operation.encode(), 1, 2)
    assert isinstance(row, OperationRow)
    assert (row.key, row.txn_id, row.sequence, row.kind) == (key, str(txn_id), 7, operation.kind)
    assert (row.segment, row.subscription) == (operation.segment, operation.subscription)
    assert (row.first, row.last) == (operation.position, operation.last or operation.position)
    assert (row.is_cumulative, row.batch) == (operation.is_cumulative, operation.batch)
    assert (row.broker, row.term, row.written_ms) == (operation.broker, operation.term, operation.written_ms)
    assert row.entries == 1 + (operation.last.entry - operation.position.entry if operation.last else 0)


@given(IDS, NAMES, st.none() | NAMES, TIMES, st.integers(0, 10**6))
def test_what_was_applied_comes_back_as_a_row(
    txn_id: TxnId, segment: str, subscription: str | None, applied_ms: int, count: int
) -> None:
    key = paths.applied_key(txn_id, segment, subscription)
    value = Applied(applied_ms, "b", 5, count, 1, 2).encode()
    expected = AppliedRow(key, str(txn_id), segment, subscription, applied_ms, "b", 5, count, 1, 2)
    assert tidemark.decode(key, value, 3, 4) == expected


@given(IDS, NAMES, POSITIONS, POSITIONS)
def test_aborted_entries_come_back_as_a_row(txn_id: TxnId, segment: str, one: Position, other: Position) -> None:
    key, first, last = paths.aborted_key(segment, txn_id), min(one, other), max(one, other)
    value = AbortedRange(first, last).encode()
    assert tidemark.decode(key, value, 3, 4) == AbortedRow(key, str(txn_id), segment, first, last, 4)


PLACES = (
    *("/txn/md_0_1", "/txn-op/md_0_1/" + NUMBER, "/txn-applied/md_0_1/s", "/txn-applied/md_0_1/s:t"),
    *("/segments/s/aborted/md_0_1", "/segments/s/owner", "/txn-ids/0", "/txn/id/1_0", f"/txn/op/1_0{NUMBER}"),
    *(f"/txn/segment-events/s{NUMBER}", f"/txn/subscription-events/s:t{NUMBER}", "/txn/segment-state/watermark/s"),
    *("/txn/segment-state/aborted/s:1_0", "/txn/tc-seq/0", "/txn/tc/leader/0", "/txn/tc/parallelism"),
)
WORDS = (
    *("format", "state", "created_ms", "timeout_ms", "owner", "finalized_ms", "cause", "kind", "segment"),
    *("subscription", "position", "last", "broker", "term", "written_ms", "batch", "batch_size", "applied_ms"),
    *("first", "operations", "first_ms", "last_ms", "createdAt", "timeout", "finalizedAt", "ledgerId", "entryId"),
    *("txnId", "decision", "maxLedgerId", "maxEntryId", "next", "brokerId"),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["OPEN", "COMMITTED", "write", "ACK", "WRITE", "1:2", "client", "md_0_1", "1_0"])
)
VALUES = st.binary(max_size=40) | st.dictionaries(
    st.sampled_from(WORDS), LEAVES | st.lists(LEAVES, max_size=3), max_size=12
).map(lambda fields: json.dumps({"format": 1, **fields}).encode())


@given(st.sampled_from(PLACES) | st.text(max_size=40), VALUES, TIMES)
def test_no_decoder_ever_raises(key: str, value: bytes, time_ms: int) -> None:
    for decode in (tidemark.decode, pulsar.decode):
        row = decode(key, value, time_ms, time_ms)
        assert row is None or row.key == key


@given(headers(), st.sampled_from(["state", "created_ms", "timeout_ms", "owner", "finalized_ms", "cause"]), LEAVES)
def test_a_header_with_one_field_replaced_is_true_to_its_types_or_odd(header: Header, name: str, value: Any) -> None:
    fields = {**json.loads(header.encode()), name: value}
    row = tidemark.decode("/txn/md_0_1", json.dumps(fields).encode(), 1, 1)
    if isinstance(row, TransactionRow):
        assert isinstance(row.state, TxnState)
        assert isinstance(row.owner, str | None)
        assert type(row.created_ms) is type(row.deadline_ms) is int
        assert type(row.finalized_ms) in (int, type(None))
    else:
        assert isinstance(row, OddRow)
        assert row.reason


NANOSECONDS = (
    b'{"state":"COMMITTED","timeout":3600.000000000,"createdAt":1795003807.879548836,"finalizedAt":1795003811.5}'
)

PULSAR = [
    (
        "/txn/id/1_0",
        NANOSECONDS,
        TransactionRow(
            *("/txn/id/1_0", "1_0", TxnState.COMMITTED, 1795003807879, 1795007407879, 1795003811500),
            *(None, None),
        ),
    ),
    (
        f"/txn/op/-1_-5{NUMBER}",
        b'{"kind":"WRITE","segment":"segment://a/b","ledgerId":0,"entryId":0}',
        OperationRow(
            *(f"/txn/op/-1_-5{NUMBER}", "-1_-5", 7, OperationKind.WRITE, "segment://a/b", None, None, None),
            *(False, (), 3, "", 0),
        ),
    ),
    (
        f"/txn/op/1_0{NUMBER}",
        b'{"kind":"ACK","segment":"s","subscription":"one","ledgerId":5,"entryId":1,"cumulative":true}',
        OperationRow(
            *(f"/txn/op/1_0{NUMBER}", "1_0", 7, OperationKind.ACK, "s", "one", Position(5, 1), Position(5, 1)),
            *(True, (), 3, "", 0),
        ),
    ),
    (
        f"/txn/subscription-events/a%2Fb%3A+c:s-1{NUMBER}",
        b'{"txnId":"1_0","decision":"ABORTED"}',
        EventRow(
            *(f"/txn/subscription-events/a%2Fb%3A+c:s-1{NUMBER}", "1_0", "a/b: c", "s-1", 7, TxnState.ABORTED, 3),
        ),
    ),
    (
        "/txn/segment-state/watermark/a%2Fb",
        b'{"ledgerId":5,"entryId":-1}',
        WatermarkRow("/txn/segment-state/watermark/a%2Fb", "a/b", Position(5, -1), 4),
    ),
    (
        "/txn/segment-state/aborted/a%3Ab:0_0",
        b'{"maxLedgerId":27,"maxEntryId":1}',
        AbortedRow("/txn/segment-state/aborted/a%3Ab:0_0", "0_0", "a:b", None, Position(27, 1), 4),
    ),
    ("/txn/segment-state/aborted", b"", SilentRow("/txn/segment-state/aborted", "a directory")),
]


@pytest.mark.parametrize(("key", "value", "row"), PULSAR, ids=[key for key, _, _ in PULSAR])
def test_pulsars_records_as_rows(key: str, value: bytes, row: object) -> None:
    assert pulsar.decode(key, value, 3, 4) == row


ODD = [
    ("/txn/id/1_0", b"{}", "state"),
    ("/txn/id/1_0", b'{"state":"COMMITTING","timeout":1,"createdAt":1}', "COMMITTING"),
    ("/txn/id/1_0", b'{"state":"OPEN","timeout":1,"createdAt":1e999999999}', "createdAt"),
    ("/txn/id/1_0", b'{"state":"OPEN","timeout":1,"createdAt":NaN}', "no JSON"),
    ("/txn/id/1_0", b'{"state":"OPEN","timeout":1,"createdAt":1,"finalizedAt":2}', "finalizedAt"),
    ("/txn/id/md_0_1", b'{"state":"OPEN","timeout":1,"createdAt":1}', "md_0_1"),
    ("/txn/id/1_0", b'{"state":"OPEN","timeout":1,"createdAt":1,"owner":"\\ud800"}', "owner"),
    (f"/txn/op/1_0{NUMBER}", b'{"kind":"READ","segment":"s","ledgerId":0,"entryId":0}', "READ"),
    (f"/txn/op/1_0{NUMBER}", b"[" * 100_000, "no JSON"),
    ("/txn/op/1_0", b"{}", "sequence"),
    ("/txn/op/1_0", b"\xff", "sequence"),
    (f"/txn/subscription-events/s{NUMBER}", b"{}", "names none"),
    ("/txn/strange/1", b"{}", "no record"),
]


@pytest.mark.parametrize(("key", "value", "reason"), ODD)
def test_odd_records_of_pulsar_are_named_with_the_reason(key: str, value: bytes, reason: str) -> None:
    row = pulsar.decode(key, value, 1, 1)
    assert isinstance(row, OddRow)
    assert row.key == key
    assert reason in row.reason


OUR_ODD = [
    ("/txn/md_0_1", b"", "no JSON"),
    ("/txn/1_0", b"{}", "legacy"),
    ("/txn/md_0_1", b'{"format":2}', "format 2"),
    ("/txn/md_0_1", b'{"format":1,"state":"OPEN","created_ms":1e400,"timeout_ms":1}', "whole number"),
    ("/txn/md_0_1", b'{"format":1,"state":"OPEN","created_ms":1,"timeout_ms":1,"owner":7}', "owner"),
    ("/txn-op/md_0_1/x", b"{}", "key"),
    ("/txn-op", b"{}", "key"),
    ("/txn-applied/md_0_1", b"{}", "key"),
    ("/segments/s/aborted/md_0_1", b'{"format":1,"first":"2:0","last":"1:0"}', "from 2:0 to 1:0"),
]


@pytest.mark.parametrize(("key", "value", "reason"), OUR_ODD)
def test_odd_records_of_ours_are_named_with_the_reason(key: str, value: bytes, reason: str) -> None:
    row = tidemark.decode(key, value, 1, 1)
    assert isinstance(row, OddRow)
    assert reason in row.reason


@pytest.mark.parametrize("key", ["", "/", "/jobs/1", "/txn", "txn/md_0_1", "/txnx/md_0_1"])
def test_what_is_no_record_of_transactions_is_left_alone(key: str) -> None:
    row = tidemark.decode(key, b"x", 1, 1)
    assert row is None
    if key != "/txn":
        assert pulsar.decode(key, b"x", 1, 1) is None


@pytest.mark.parametrize("key", ["/segments/s/cursors/a", "/segment-owners/s", "/txn-ids/0", "/segments/s/descriptor"])
def test_what_says_nothing_of_a_transaction_is_silent(key: str) -> None:
    assert isinstance(tidemark.decode(key, b"anything", 1, 1), SilentRow)
