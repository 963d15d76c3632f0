"""Transactions with puts to sequences: what they number, what follows it, and that a refused one leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.clock import ManualClock
from metastore.engine import limits
from metastore.engine.errors import ConditionsFailed, InvalidRequest
from metastore.engine.operations import Put, PutOptions, Range, Transaction, WriteBatch
from metastore.engine.record import key_of, value_of
from metastore.engine.shard import Shard


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard", clock=ManualClock()) as shard:
        yield shard


def numbered(prefix: bytes, *numbers: int) -> bytes:
    return b"-".join([prefix, *(b"%020d" % number for number in numbers)])


def next_of(prefix: bytes, *deltas: int, value: bytes = b"v") -> Put:
    return prefix, value, PutOptions(partition_key=b"p", sequence_key_deltas=deltas)


def contents(shard: Shard) -> dict[bytes, bytes]:
    with shard.scan(Range(b"", b"")) as scan:
        return {key_of(record): value_of(record) for chunk in iter(scan.next_chunk, []) for record in chunk}


def test_results_are_in_the_order_of_the_puts(shard: Shard) -> None:
    result = shard.transact(
        Transaction([], [(b"a", b"1", None), next_of(b"s", 5), (b"b", b"2", None), next_of(b"s", 1, value=b"w")])
    )
    assert [new_key for _, _, new_key in result.puts] == [None, numbered(b"s", 5), None, numbered(b"s", 6)]
    assert contents(shard) == {b"a": b"1", b"b": b"2", numbered(b"s", 5): b"v", numbered(b"s", 6): b"w"}
    assert shard.next_offset == 1


def test_a_round_numbers_on_from_what_came_before_it(shard: Shard) -> None:
    told: list[tuple[int, bytes, bytes]] = []
    shard.rounds.on_round.append(lambda stage: told.extend(stage.sequences))
    keys: list[bytes | None | str] = []

    def done(result: object, error: BaseException | None) -> None:
        puts = getattr(result, "puts", [])
        keys.extend([new_key for _, _, new_key in puts] or [type(error).__name__])

    def submit_all() -> None:
        shard.submit_write(WriteBatch(puts=[next_of(b"s", 1)]), done)
        shard.submit_transact(Transaction([], [next_of(b"s", 1), next_of(b"s", 1)]), done)
        shard.submit_transact(Transaction([(b"s", 7)], [next_of(b"s", 1)]), done)
        shard.submit_transact(Transaction([], [next_of(b"s", 1), (numbered(b"s", 4), b"", None)]), done)
        shard.submit_transact(Transaction([], [next_of(b"s", 1)], [(numbered(b"s", 3), None)]), done)

    shard.rounds.between_rounds(submit_all)
    assert keys == [
        numbered(b"s", 1),
        *(numbered(b"s", 2), numbered(b"s", 3)),
        "ConditionsFailed",
        "InvalidRequest",
        numbered(b"s", 4),
    ]
    assert set(contents(shard)) == {numbered(b"s", number) for number in (1, 2, 4)}
    # Followers hear of what was stored and of nothing that was undone.
    assert told == [(offset, b"s", numbered(b"s", 1 + place)) for place, offset in enumerate((0, 1, 1, 2))]


REFUSED = {
    "a key that is put by hand": Transaction([], [(b"x", b"", None), next_of(b"s", 1), (numbered(b"s", 2), b"", None)]),
    "a key that is deleted": Transaction([], [next_of(b"s", 1)], [(numbered(b"s", 2), None)]),
    "parts that are lost": Transaction([], [(b"x", b"", None), next_of(b"s", 1), next_of(b"two", 1)]),
    "numbers beyond the last": Transaction([], [next_of(b"s", 1), next_of(b"s", limits.SEQUENCE_NUMBER_MAX)]),
    "a first delta of nothing": Transaction([], [next_of(b"s", 1), next_of(b"t", 0)]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_one_leaves_no_trace(shard: Shard, what: str) -> None:
    """Staged in one round with others, so that it has something to undo and somebody to disturb."""
    shard.write(WriteBatch(puts=[next_of(b"s", 1), next_of(b"two", 1, 1)]))
    before = contents(shard)
    outcomes: list[object] = []

    def done(result: object, error: BaseException | None) -> None:
        outcomes.append(error or result)

    def submit_all() -> None:
        shard.submit_transact(REFUSED[what], done)
        shard.submit_write(WriteBatch(puts=[next_of(b"s", 1)]), done)

    shard.rounds.between_rounds(submit_all)
    refusal, stored = outcomes
    assert isinstance(refusal, InvalidRequest)
    (put,) = getattr(stored, "puts")  # noqa: B009 - either of two kinds
    assert put[2] == numbered(b"s", 2)
    assert contents(shard) == {**before, numbered(b"s", 2): b"v"}
    assert shard.next_offset == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PutOptions(sequence_key_deltas=(1,)), "needs a partition key"),
        (PutOptions(partition_key=b"p", expected_version_id=-1, sequence_key_deltas=(1,)), "can expect no version"),
        (PutOptions(partition_key=b"p", override_version_id=1, sequence_key_deltas=(1,)), "sets its own version"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(shard: Shard, options: PutOptions, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        shard.transact(Transaction([], [(b"s", b"", options)]))
    assert shard.next_offset == 0


def test_a_prefix_is_no_key(shard: Shard) -> None:
    shard.transact(Transaction([(b"s", -1)], [next_of(b"s", 1), (b"s", b"", None), next_of(b"s", 1)]))
    assert set(contents(shard)) == {b"s", numbered(b"s", 1), numbered(b"s", 2)}


def test_a_failed_condition_comes_before_what_cannot_be(shard: Shard) -> None:
    with pytest.raises(ConditionsFailed):
        shard.transact(Transaction([(b"a", 3)], [next_of(b"s", 0)]))


@pytest.mark.parametrize("is_clean", [False, True])
def test_generated_keys_outlast_a_restart(tmp_path: Path, is_clean: bool) -> None:
    shard = Shard.open(tmp_path / "shard")
    shard.transact(Transaction([], [next_of(b"s", 3), next_of(b"s", 1, 1)]))
    expected = contents(shard)
    if is_clean:
        shard.close()
    else:
        shard.abandon()
    with Shard.open(tmp_path / "shard") as again:
        assert contents(again) == expected
        (result,) = again.transact(Transaction([], [next_of(b"s", 1, 1)])).puts
        assert result[2] == numbered(b"s", 5, 2)


def test_as_many_as_a_transaction_may_have(shard: Shard) -> None:
    count = limits.TRANSACTION_OPERATIONS_MAX
    result = shard.transact(Transaction([], [next_of(b"s", 1)] * count))
    assert [new_key for _, _, new_key in result.puts] == [numbered(b"s", number) for number in range(1, count + 1)]
