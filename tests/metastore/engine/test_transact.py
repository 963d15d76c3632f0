"""Transactions: every condition holds and everything applies, or nothing does and there is no trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metastore.clock import ManualClock
from metastore.engine import limits
from metastore.engine.errors import ConditionsFailed, FailedCondition, InvalidRequest, SessionNotFound, StoreFull
from metastore.engine.operations import Put, PutOptions, Range, Status, Transaction, WriteBatch, WriteResult
from metastore.engine.record import key_of, value_of, version_id_of
from metastore.engine.shard import Shard, ShardOptions
from metastore.faults import ArmedFault


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard", clock=ManualClock()) as shard:
        yield shard


def put(key: bytes, value: bytes = b"v", **options: Any) -> Put:
    return key, value, PutOptions(**options) if options else None


def write(shard: Shard, *keys: bytes) -> None:
    """Version ids are counted from 0."""
    shard.write(WriteBatch(puts=[put(key) for key in keys]))


def contents(shard: Shard) -> dict[bytes, tuple[bytes, int]]:
    """Key: value, version id."""
    with shard.scan(Range(b"", b"")) as scan:
        records = [record for chunk in iter(scan.next_chunk, []) for record in chunk]
    return {key_of(record): (value_of(record), version_id_of(record)) for record in records}


def test_everything_applies_in_one_log_entry(shard: Shard) -> None:
    write(shard, b"a", b"b", b"c")
    transaction = Transaction(
        conditions=[(b"a", 0), (b"x", -1)],
        puts=[put(b"b", b"w", expected_version_id=1), put(b"d", b"w", expected_version_id=-1), put(b"a", b"w")],
        deletes=[(b"c", 2), (b"absent", None)],
    )
    result = shard.transact(transaction)
    assert [status for status, _, _ in result.puts] == [Status.OK] * 3
    assert result.deletes == [Status.OK, Status.KEY_NOT_FOUND]
    assert contents(shard) == {b"a": (b"w", 5), b"b": (b"w", 3), b"d": (b"w", 4)}
    assert shard.next_offset == 2


def test_a_failed_condition_leaves_no_trace_and_is_named(shard: Shard) -> None:
    write(shard, b"a", b"b")
    before = contents(shard), shard.next_offset
    transaction = Transaction(
        conditions=[(b"a", 0), (b"b", -1), (b"x", 7)],
        puts=[put(b"n"), put(b"a", b"w", expected_version_id=9), put(b"o", expected_version_id=-1)],
        deletes=[(b"b", 1), (b"y", 3), (b"z", None)],
    )
    with pytest.raises(ConditionsFailed, match="4 conditions .* number 1, on 'b': no record is expected") as caught:
        shard.transact(transaction)
    assert caught.value.failed == (
        FailedCondition(1, b"b", -1, 1),
        FailedCondition(2, b"x", 7, -1),
        FailedCondition(3, b"a", 9, 0),
        FailedCondition(6, b"y", 3, -1),
    )
    assert (contents(shard), shard.next_offset) == before
    write(shard, b"next")
    assert contents(shard)[b"next"] == (b"v", 2)


def test_conditions_are_judged_before_the_first_operation(shard: Shard) -> None:
    write(shard, b"a")
    shard.transact(Transaction([(b"a", 0), (b"b", -1)], [put(b"b")], [(b"a", None)]))
    assert contents(shard) == {b"b": (b"v", 1)}


def test_a_round_shows_a_transaction_what_came_before_it(shard: Shard) -> None:
    outcomes: list[Any] = []

    def done(result: WriteResult | None, error: BaseException | None) -> None:
        outcomes.append(error or result)

    def submit_all() -> None:
        shard.submit_write(WriteBatch(puts=[put(b"a")]), done)
        shard.submit_transact(Transaction([(b"a", 0)], [put(b"a")]), done)
        shard.submit_transact(Transaction([(b"a", 0)], [put(b"b")]), done)
        shard.submit_transact(Transaction([(b"a", 1)], [put(b"c")]), done)

    shard.rounds.between_rounds(submit_all)
    assert [type(outcome) for outcome in outcomes] == [WriteResult, WriteResult, ConditionsFailed, WriteResult]
    assert contents(shard) == {b"a": (b"v", 1), b"c": (b"v", 2)}
    assert shard.next_offset == 3


def test_a_session_that_is_not_there_refuses_the_whole(shard: Shard) -> None:
    session_id = shard.create_session(2_000)
    shard.transact(Transaction([], [put(b"mine", session_id=session_id)]))
    before = shard.next_offset
    with pytest.raises(SessionNotFound):
        shard.transact(Transaction([], [put(b"a"), put(b"b", session_id=session_id + 1)]))
    assert (list(contents(shard)), shard.next_offset) == ([b"mine"], before)
    shard.close_session(session_id)
    assert contents(shard) == {}


def test_a_failed_condition_comes_before_a_missing_session(shard: Shard) -> None:
    with pytest.raises(ConditionsFailed):
        shard.transact(Transaction([(b"a", 1)], [put(b"b", session_id=99)]))


def test_indexes_go_with_the_records(shard: Shard) -> None:
    shard.transact(Transaction([], [put(b"a", secondary_indexes=((b"i", b"1"),)), put(b"b")]))
    shard.transact(Transaction([], [put(b"b", secondary_indexes=((b"i", b"2"),))], [(b"a", None)]))
    with shard.list_keys(Range(b"0", b"9", b"i")) as listing:
        assert listing.next_chunk() == [b"b"]


@pytest.mark.parametrize(
    ("transaction", "message"),
    [
        (Transaction([(b"a", 0)]), "at least one put or delete"),
        (Transaction([], [put(b"a"), put(b"a")]), "two operations on key 'a'"),
        (Transaction([], [put(b"a")], [(b"a", None)]), "two operations on key 'a'"),
        (Transaction([(b"a", -2)], [put(b"b")]), "the expected version of key 'a' is -2"),
        (Transaction([], [put(b"b", expected_version_id=-2)]), "the expected version of key 'b' is -2"),
        (Transaction([], [], [(b"c", -3)]), "the expected version of key 'c' is -3"),
        (Transaction([], [put(b"a", override_version_id=1)]), "sets its own version"),
        (Transaction([], [put(b"a", override_modifications_count=1)]), "sets its own version"),
        (Transaction([(b"\xff", 0)], [put(b"a")]), "not UTF-8"),
        (Transaction([], [], [(b"\xff", None)]), "not UTF-8"),
        (Transaction([], [put(b"k" * (limits.KEY_BYTES_MAX + 1))]), "is longer than"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(shard: Shard, transaction: Transaction, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        shard.transact(transaction)
    assert shard.next_offset == 0


def test_there_are_so_many_operations_and_no_more(shard: Shard) -> None:
    count = limits.TRANSACTION_OPERATIONS_MAX
    keys = [b"%d" % number for number in range(count)]
    at_limit = Transaction([(b"x", -1)] * 10, [put(key) for key in keys[: count - 20]], [(keys[-1], None)] * 1)
    shard.transact(at_limit)
    assert len(contents(shard)) == count - 20
    beyond = Transaction([(b"x", -1)], [put(key) for key in keys])
    with pytest.raises(InvalidRequest, match=f"{count + 1} operations and conditions; {count} are allowed"):
        shard.transact(beyond)


def test_deletes_go_on_over_the_quota(tmp_path: Path) -> None:
    with Shard.open(tmp_path / "shard", ShardOptions(quota_bytes=60_000)) as shard:
        shard.transact(Transaction([], [put(b"a", b"x" * 100_000)]))
        shard.feeder.feed_all()
        with pytest.raises(StoreFull):
            shard.transact(Transaction([], [put(b"b")], [(b"a", None)]))
        shard.transact(Transaction([(b"a", 0)], [], [(b"a", None)]))
        assert contents(shard) == {}


def test_a_full_disk_refuses_puts_and_lets_deletes_through(tmp_path: Path) -> None:
    with Shard.open(tmp_path / "shard") as shard:
        write(shard, b"a")
        shard.close()
    with Shard.open(tmp_path / "shard", faults=ArmedFault("log.append.before", 1, "nospace")) as shard:
        with pytest.raises(StoreFull):
            shard.transact(Transaction([], [put(b"b")]))
        assert contents(shard) == {b"a": (b"v", 0)}
        assert shard.next_offset == 1


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_transaction_outlasts_a_restart(tmp_path: Path, is_clean: bool) -> None:
    shard = Shard.open(tmp_path / "shard")
    write(shard, b"a")
    with pytest.raises(ConditionsFailed):
        shard.transact(Transaction([(b"a", 5)], [put(b"z")]))
    shard.transact(Transaction([(b"a", 0)], [put(b"b", b"w")], [(b"a", None)]))
    expected = contents(shard)
    if is_clean:
        shard.close()
    else:
        shard.abandon()
    with Shard.open(tmp_path / "shard") as again:
        assert contents(again) == expected == {b"b": (b"w", 1)}
        assert again.next_offset == 2


KEYS = st.sampled_from([b"a", b"b", b"c", b"a/b"])
VERSIONS = st.integers(-1, 6)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    keys = draw(st.lists(KEYS, min_size=1, max_size=4, unique=True))
    cut = draw(st.integers(0, len(keys)))
    expected = st.none() | VERSIONS
    return Transaction(
        draw(st.lists(st.tuples(KEYS, VERSIONS), max_size=2)),
        [put(key, draw(st.binary(max_size=3)), expected_version_id=draw(expected)) for key in keys[:cut]],
        [(key, draw(expected)) for key in keys[cut:]],
    )


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=st.lists(transactions(), max_size=12))
def test_random_transactions_are_as_in_a_dict(
    tmp_path_factory: pytest.TempPathFactory, requests: list[Transaction]
) -> None:
    state: dict[bytes, tuple[bytes, int]] = {}
    next_version = 0
    with Shard.open(tmp_path_factory.mktemp("shard")) as shard:
        for transaction in requests:
            wanted = list(transaction.all_conditions())
            failed = [each for each in wanted if each[2] != state.get(each[1], (b"", -1))[1]]
            offset = shard.next_offset
            if failed:
                with pytest.raises(ConditionsFailed) as caught:
                    shard.transact(transaction)
                found = [state.get(key, (b"", -1))[1] for _, key, _ in failed]
                assert caught.value.failed == tuple((*each, actual) for each, actual in zip(failed, found, strict=True))
                assert shard.next_offset == offset
            else:
                shard.transact(transaction)
                for key, value, _ in transaction.puts:
                    state[key] = (value, next_version)
                    next_version += 1
                for key, _ in transaction.deletes:
                    state.pop(key, None)
            assert contents(shard) == state
