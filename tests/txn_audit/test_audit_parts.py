"""What is put together where it is read says what the records say, however they are cut into batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import itemgetter, xor
from typing import Any

import numpy
import pyarrow
from audit_records import SHARD, records
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.keys import key_order
from metastore.spark.columns import names_of
from metastore.spark.records import KeysOnly, Records
from metastore.spark.views import Selection
from txn.audit.views.form import NUMBER, TIME
from txn.audit.views.fragments import FRAGMENT, added_up, of_operations
from txn.audit.views.operations import ops
from txn.audit.views.parts import transaction_parts
from txn.audit.views.sums import entry_sums
from txn.model.applied import Applied
from txn.model.header import Cause, Header, TxnState
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position

ALL = Selection("hierarchical")
WHO = ("txn_id", "segment", "subscription")
Pair = tuple[str, bytes]

IDS = st.sampled_from(["md_0_1", "md_0_10", "md_0_11", "md_0_2"])
"""Of which one begins with another: keys are in another order than ids."""
POSITIONS = st.builds(Position, st.integers(0, 2), st.integers(0, 9))
OPERATIONS = st.builds(
    lambda txn_id, sequence, operation: (f"/txn-op/{txn_id}/-{sequence:020}", operation.encode()),
    IDS,
    st.integers(1, 40),
    st.one_of(
        st.builds(
            lambda segment, position: Operation(OperationKind.WRITE, segment, position, written_ms=5),
            st.sampled_from("ab"),
            POSITIONS,
        ),
        st.builds(
            lambda position, name, batch: Operation(
                OperationKind.ACK, "a", position, None, name, not batch, tuple(batch), 5 if batch else 0, written_ms=7
            ),
            POSITIONS,
            st.sampled_from(["s", "a long name of a subscription"]),
            st.lists(st.integers(0, 4)),
        ),
        st.builds(
            lambda position, name: Operation(OperationKind.ACK, "a", position, None, name, written_ms=9),
            POSITIONS,
            st.sampled_from("st"),
        ),
    ),
)
HEADERS = st.builds(
    lambda txn_id, is_open: (
        f"/txn/{txn_id}",
        (Header(TxnState.OPEN, 5, 9) if is_open else Header(TxnState.ABORTED, 5, 9, None, 7, Cause.CLIENT)).encode(),
    ),
    IDS,
    st.booleans(),
)
APPLIED = st.builds(
    lambda txn_id, name: (f"/txn-applied/{txn_id}/{name}", Applied(8, "broker", 1, 3, 5, 5).encode()),
    IDS,
    st.sampled_from(["a", "b", "a:s"]),
)
ODD = st.sampled_from([("/txn/md_0_12", b"no header"), ("/txn-op/md_0_x/-1", b"{}"), ("/txn-applied/md_0_1/c", b"")])
PAIRS = st.lists(st.one_of(OPERATIONS, OPERATIONS, HEADERS, APPLIED, ODD), max_size=40, unique_by=itemgetter(0))


def parts(pairs: Sequence[Pair], batch: int) -> list[dict[str, Any]]:
    """The rows of the view, of batches of so many records."""
    order = key_order("hierarchical")
    ordered = sorted(pairs, key=lambda pair: order.encode(pair[0].encode()))

    def stream(path: str) -> Iterator[Records]:
        own = [pair for pair in ordered if pair[0].startswith(f"{path}/")]
        return (records(own[at : at + batch]) for at in range(0, len(own), batch))

    names = names_of(transaction_parts.schema)
    found: list[dict[str, Any]] = []
    streams = [stream(kind.path) for kind in transaction_parts.kinds]
    for columns in transaction_parts.decode(streams, names, lambda keys: numpy.ones(len(keys), bool)):
        arrays = {name: each.cast(NUMBER) if each.type == TIME else each for name, each in columns.items()}
        found += pyarrow.table(arrays).to_pylist()
    return found


def plain_rows(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Operations, one by one."""
    columns = ops.decode(records([pair for pair in pairs if pair[0].startswith("/txn-op/")]), names_of(ops.schema), ALL)
    arrays = {name: each.cast(NUMBER) if each.type == TIME else each for name, each in columns.columns.items()}
    rows: list[dict[str, Any]] = pyarrow.table(arrays).to_pylist()
    return rows


def plain_sums(pairs: Sequence[Pair]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """What operations add up to, by participant."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in plain_rows(pairs):
        if row["odd_key"] is None:
            groups[tuple(row[name] for name in WHO)].append(row)
    return {
        who: (
            len(group),
            min(row["sequence"] for row in group),
            max(row["sequence"] for row in group),
            min(row["written"] for row in group),
            max(row["ledger"] for row in group),
            sorted({row["ledger"] for row in group if row["subscription"] is not None}),
            sum(is_single(row) for row in group),
        )
        for who, group in groups.items()
    }


def is_single(row: dict[str, Any]) -> bool:
    """Whether it acknowledges one whole entry."""
    return row["subscription"] is not None and not row["cumulative"] and row["batch"] is None


@settings(max_examples=80, deadline=None)
@given(pairs=PAIRS, batch=st.integers(1, 41))
def test_participants_say_what_the_operations_say(pairs: list[Pair], batch: int) -> None:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in parts(pairs, batch):
        if row["operations"] and row["odd_key"] is None:
            groups[tuple(row[name] for name in WHO)].append(row)
    found = {
        who: (
            sum(row["operations"] for row in group),
            min(row["first_sequence"] for row in group),
            max(row["last_sequence"] for row in group),
            min(row["first_written"] for row in group),
            max(row["last_ledger"] for row in group),
            sorted({span["ledger"] for row in group for span in row["spans"] or ()}),
            sum(len(row["places"] or ()) for row in group),
        )
        for who, group in groups.items()
    }
    assert found == plain_sums(pairs)


@settings(max_examples=80, deadline=None)
@given(pairs=PAIRS, batch=st.integers(1, 41))
def test_each_transaction_is_told_of_once_and_what_may_be_torn_says_so(pairs: list[Pair], batch: int) -> None:
    rows = parts(pairs, batch)
    headers = {key.rpartition("/")[2] for key, _ in pairs if key.startswith("/txn/")} - {"md_0_12"}
    assert sorted(row["txn_id"] for row in rows if row["whole"] is not None) == sorted(headers)
    assert all(row["is_loose"] for row in rows if row["odd_key"] is None and row["state"] is None)
    loose = {row["txn_id"] for row in rows if row["is_loose"]}
    for txn_id in headers - loose:
        own = [row for row in rows if row["txn_id"] == txn_id and row["segment"] is not None]
        (whole,) = (row["whole"] for row in rows if row["txn_id"] == txn_id and row["whole"] is not None)
        assert whole["operations"] == sum(row["operations"] for row in own)
        assert whole["participants"] == len(own) == len({(row["segment"], row["subscription"]) for row in own})
        assert whole["applied_participants"] == sum(row["applied"] is not None for row in own)
    assert {row["odd_key"] for row in rows if row["odd_key"]} == {
        key for key, _ in pairs if key in {"/txn/md_0_12", "/txn-op/md_0_x/-1", "/txn-applied/md_0_1/c"}
    }


@settings(max_examples=40, deadline=None)
@given(pairs=PAIRS, batch=st.integers(1, 41))
def test_what_is_in_one_batch_is_together(pairs: list[Pair], batch: int) -> None:
    """Without ids that begin with others nothing is torn."""
    alike = [pair for pair in pairs if "md_0_1/" not in pair[0] and not pair[0].endswith("md_0_1")]
    headers = {key.rpartition("/")[2] for key, _ in alike if key.startswith("/txn/")}
    assert all(row["txn_id"] not in headers for row in parts(alike, batch) if row["is_loose"])


NUMBERED = st.lists(st.tuples(IDS, st.sampled_from("ab"), st.booleans(), st.integers(1, 3)), min_size=1, max_size=30)


@settings(max_examples=100, deadline=None)
@given(operations=NUMBERED)
def test_operations_beside_each_other_add_up_as_single_ones_do(operations: list[tuple[str, str, bool, int]]) -> None:
    pairs = []
    for number, (txn_id, segment, is_ack, ledger) in enumerate(operations):
        at, broker = Position(ledger, number % 4), f"b{number % 2}"
        operation = (
            Operation(OperationKind.ACK, segment, at, None, "s", number % 5 == 0, written_ms=number)
            if is_ack
            else Operation(OperationKind.WRITE, segment, at, broker=broker, term=ledger, written_ms=number)
        )
        pairs.append((f"/txn-op/{txn_id}/-{number:020}", operation.encode()))
    pairs.sort(key=lambda pair: pair[0].rpartition("/")[0])
    together = of_operations(records(pairs))
    each = pyarrow.concat_tables([of_operations(records([pair])) for pair in pairs])
    names = FRAGMENT.names
    assert len(together) <= len(pairs)
    assert _by_participant(added_up(together.select(names))) == _by_participant(added_up(each.select(names)))


def _by_participant(fragments: pyarrow.Table) -> list[dict[str, Any]]:
    found = fragments.to_pylist()
    return sorted(found, key=lambda row: (row["txn_id"], row["segment"], row["subscription"] or ""))


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(OPERATIONS, max_size=20, unique_by=itemgetter(0)), batch=st.integers(1, 21))
def test_keys_are_hashed_as_index_entries_are_and_whatever_the_batch(pairs: list[Pair], batch: int) -> None:
    whole = reduce(xor, (row["keys_hash"] for row in parts(pairs, batch)), 0)
    keys = pyarrow.array([key.encode() for key, _ in pairs], pyarrow.binary())
    starts = numpy.arange(len(pairs))
    found_by = pyarrow.array([b"s%d" % (len(key) % 2) for key, _ in pairs], pyarrow.binary())
    entries = KeysOnly(keys, SHARD, starts, found_by)
    decoded = entry_sums.decode(entries, ["entries", "keys_hash"], ALL)
    assert sum(decoded.columns["entries"].to_pylist()) == len(pairs)
    assert reduce(xor, decoded.columns["keys_hash"].to_pylist(), 0) == whole


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(HEADERS, max_size=9, unique_by=itemgetter(0)))
def test_headers_are_hashed_as_the_entries_that_lead_to_them(pairs: list[Pair]) -> None:
    rows = parts(pairs, 9)
    entries = [(Header.decode(value).indexes(), key) for key, value in pairs]
    for name in {name for indexes, _ in entries for name, _ in indexes}:
        own = [(secondary, key) for indexes, key in entries for each, secondary in indexes if each == name]
        found = KeysOnly(
            pyarrow.array([key.encode() for _, key in own], pyarrow.binary()),
            SHARD,
            numpy.arange(len(own)),
            pyarrow.array([secondary.encode() for secondary, _ in own], pyarrow.binary()),
        )
        found.index = name.encode()
        decoded = entry_sums.decode(found, ["entries", "keys_hash"], ALL)
        led = {key.rpartition("/")[2] for _, key in own}
        hashed = reduce(xor, (row["entry_hash"] for row in rows if row["txn_id"] in led), 0)
        assert decoded.columns["keys_hash"].to_pylist() == [hashed]
