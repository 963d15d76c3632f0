"""What is put together where it is read says what the records say, however they are cut into batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import itemgetter, xor
from typing import Any

import numpy
import pyarrow
import pytest
from audit_records import SHARD, records
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.keys import key_order
from metastore.spark.columns import names_of
from metastore.spark.records import KeysOnly, Records
from metastore.spark.views import Selection, Surroundings
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


def everywhere(names: Any) -> Any:
    """All are at home."""
    return numpy.ones(len(names), bool)


ALONE = Surroundings(False, everywhere, ())
"""One shard, read at once."""


def ordered(pairs: Sequence[Pair], sorting: str = "hierarchical") -> list[Pair]:
    """As a store keeps them."""
    order = key_order(sorting)
    return sorted(pairs, key=lambda pair: order.encode(pair[0].encode()))


def parts(
    pairs: Sequence[Pair],
    batch: int,
    sorting: str = "hierarchical",
    surroundings: Surroundings = ALONE,
) -> list[dict[str, Any]]:
    """The rows of the view but for the last ones, of batches of so many records."""
    return [row for row in all_parts(ordered(pairs, sorting), batch, surroundings) if row["expected"] is None]


def all_parts(pairs: Sequence[Pair], batch: int, surroundings: Surroundings) -> list[dict[str, Any]]:
    """The rows of the view, of records in the order of their keys; two batches are put together at once."""

    def stream(path: str) -> Iterator[Records]:
        own = [pair for pair in pairs if pair[0].startswith(f"{path}/")]
        return (records(own[at : at + batch]) for at in range(0, len(own), batch))

    names = names_of(transaction_parts.schema)
    found: list[dict[str, Any]] = []
    streams = [stream(kind.path) for kind in transaction_parts.kinds]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("txn.audit.views.parts.PULL_ROWS", batch + 1)
        for columns in transaction_parts.decode(streams, names, surroundings):
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


ODD_KEYS = {"/txn/md_0_12", "/txn-op/md_0_x/-1", "/txn-applied/md_0_1/c"}
SORTINGS = ["hierarchical", "natural"]


@pytest.mark.parametrize("sorting", SORTINGS)
@settings(max_examples=80, deadline=None)
@given(pairs=PAIRS, batch=st.integers(1, 41))
def test_each_transaction_is_told_of_once(sorting: str, pairs: list[Pair], batch: int) -> None:
    """Whatever the batch, even if ids begin with others: of one shard that is read at once nothing is torn."""
    rows = parts(pairs, batch, sorting)
    assert not any(row["is_loose"] for row in rows)
    assert {row["odd_key"] for row in rows if row["odd_key"]} == {key for key, _ in pairs if key in ODD_KEYS}
    readable = [row for row in rows if row["odd_key"] is None]
    ids = {row["txn_id"] for row in readable}
    assert sorted(row["txn_id"] for row in readable if row["whole"] is not None) == sorted(ids)
    headers = {key.rpartition("/")[2] for key, _ in pairs if key.startswith("/txn/")} - {"md_0_12"}
    assert {row["txn_id"] for row in readable if row["state"] is not None} == headers
    for txn_id in ids:
        of_it = [row for row in readable if row["txn_id"] == txn_id]
        own = [row for row in of_it if row["segment"] is not None]
        assert len({row["state"] for row in of_it}) == 1
        (whole,) = (row["whole"] for row in of_it if row["whole"] is not None)
        assert whole["operations"] == sum(row["operations"] for row in own)
        assert whole["participants"] == len(own) == len({(row["segment"], row["subscription"]) for row in own})
        assert whole["applied_participants"] == sum(row["applied"] is not None for row in own)


BOUNDS = st.sampled_from(["md_0_1", "md_0_10", "md_0_101", "md_0_11", "md_0_2", "md_0_20"])


@pytest.mark.parametrize("sorting", SORTINGS)
@settings(max_examples=80, deadline=None)
@given(pairs=PAIRS, batch=st.integers(1, 41), bound=BOUNDS)
def test_what_a_bound_may_part_is_loose_on_both_sides(sorting: str, pairs: list[Pair], batch: int, bound: str) -> None:
    order = key_order(sorting)

    def is_below(pair: Pair) -> bool:
        path = pair[0].split("/")[1]
        return order.encode(pair[0].encode()) < order.encode(f"/{path}/{bound}{'' if path == 'txn' else '/'}".encode())

    known = [pair for pair in pairs if pair[0] not in ODD_KEYS]
    lower, upper = [pair for pair in known if is_below(pair)], [pair for pair in known if not is_below(pair)]
    beside = Surroundings(False, everywhere, (bound,))
    sides = [parts(side, batch, sorting, beside) for side in (lower, upper)]
    rows = [row for side in sides for row in side]
    loose = {row["txn_id"] for row in rows if row["is_loose"]}
    assert not any(row["is_astray"] for row in rows)
    assert all(row["is_loose"] == (row["txn_id"] in loose) for row in rows)
    assert loose <= {txn_id for txn_id in ("md_0_1", "md_0_10", "md_0_11", "md_0_2") if _are_alike(txn_id, bound)}
    whole = [{row["txn_id"] for row in side} - loose for side in sides]
    assert not whole[0] & whole[1]


def _are_alike(one: str, other: str) -> bool:
    return one != other and (one.startswith(other) or other.startswith(one))


@settings(max_examples=80, deadline=None)
@given(pairs=PAIRS, batch=st.integers(1, 41))
def test_on_one_of_several_shards_what_is_not_with_its_header_is_loose(pairs: list[Pair], batch: int) -> None:
    def are_home(names: pyarrow.StringArray) -> Any:
        return numpy.array([name != "md_0_2" for name in names.to_pylist()], bool)

    rows = [row for row in parts(pairs, batch, surroundings=Surroundings(True, are_home, ())) if row["odd_key"] is None]
    for row in rows:
        assert row["is_loose"] == (row["state"] is None or row["txn_id"] == "md_0_2")
        assert bool(row["is_astray"]) == (row["txn_id"] == "md_0_2")
    whole = [row["txn_id"] for row in rows if row["whole"] is not None]
    assert sorted(whole) == sorted({row["txn_id"] for row in rows if not row["is_loose"]})


@settings(max_examples=40, deadline=None)
@given(pairs=PAIRS, batch=st.integers(1, 41))
def test_what_waits_for_too_long_is_told_as_being_astray(pairs: list[Pair], batch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("txn.audit.views.parts.HELD_MAX", 1)
        rows = [row for row in parts(pairs, batch) if row["odd_key"] is None]
    astray = {row["txn_id"] for row in rows if row["is_astray"]}
    assert all(row["txn_id"] in astray for row in rows if row["is_loose"])
    assert sum(row["operations"] for row in rows) == sum(count for count, *_ in plain_sums(pairs).values())


@settings(max_examples=80, deadline=None)
@given(pairs=PAIRS, batch=st.integers(1, 41), per_row=st.integers(1, 3))
def test_what_indexes_should_add_up_to_is_what_rows_say(pairs: list[Pair], batch: int, per_row: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("txn.audit.views.expected.SUMS_PER_ROW_MAX", per_row)
        rows = all_parts(ordered(pairs), batch, ALONE)
    found = [each for row in rows for each in row["expected"] or ()]
    sums: dict[tuple[Any, ...], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows:
        if row["operations"]:
            by, entries, hashed = (None, row["segment"], row["subscription"]), row["operations"], row["keys_hash"]
            sums[by] = sums[by][0] + entries, sums[by][1] ^ hashed
        if row["whole"] is not None and row["state"] is not None:
            by = row["state"], None, None
            sums[by] = sums[by][0] + 1, sums[by][1] ^ row["entry_hash"]
    told = {(each["state"], each["segment"], each["subscription"]): (each["entries"], each["hash"]) for each in found}
    assert len(told) == len(found)
    assert told == sums


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
