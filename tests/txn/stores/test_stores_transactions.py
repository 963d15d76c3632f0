"""Transactions over several segments on every kind of store: outcomes, changes of owners, the end of everything."""

from __future__ import annotations

import asyncio

import pytest
from stores_stage import Fleet, run, texts

from support.stores import Subject
from txn.model import paths
from txn.model.errors import TxnAlreadyAborted, TxnAlreadyCommitted
from txn.model.header import Cause, TxnState
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.errors import SegmentSealed

NAMES = ("1", "10", "1-1", "1%2F1")
"""Of which one begins like the other."""
DEADLINE_MS = 1_500
"""More than two sends take anywhere."""

every_outcome = pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])


def require_time(subject: Subject, change: str) -> None:
    """A death takes as long as a session does: of stores that are alike one is asked."""
    if change == "die" and not subject.is_given_time:
        pytest.skip("of stores that are alike one is asked what takes seconds")


@pytest.mark.parametrize(("change", "is_committed"), [("stay", True), ("stay", False), ("stop", False), ("die", True)])
def test_all_of_it_or_nothing_wherever_it_is(subject: Subject, change: str, is_committed: bool) -> None:
    require_time(subject, change)

    async def scenario(fleet: Fleet) -> None:
        segments = [await fleet.create(name) for name in NAMES]
        before = {segment: await fleet.send(segment, "before") for segment in segments}
        for segment in segments:
            await fleet.subscription(segment)
        txn_id, other = await fleet.begin(), await fleet.begin()
        for segment in segments:
            await fleet.send(segment, "inside", txn_id)
            position = before[segment].position
            assert position is not None
            await (await fleet.subscription(segment)).acknowledge([Ack(position)], txn_id)
            await fleet.send(segment, "other", other)
            await fleet.send(segment, "behind")
        await fleet.end(other, is_committed=False)
        await fleet.replace(change)
        for segment in segments:
            assert await fleet.read(segment) == ["before"], "nothing behind an open transaction"
        await fleet.end(txn_id, is_committed=is_committed)
        for segment in segments:
            inside = ["inside"] if is_committed else []
            assert await fleet.read_until(segment, "behind") == ["before", *inside, "behind"]
            left = inside if is_committed else ["before"]
            assert texts(await fleet.receive(segment, "behind")) == [*left, "behind"]
            assert (await fleet.send_again(segment, "before", 0)).is_duplicate
        await fleet.settled(txn_id, other)

    run(subject, scenario, brokers=2)


@pytest.mark.parametrize(("change", "is_committed"), [("stay", True), ("die", False)])
def test_what_is_held_of_a_subscription_is_held_by_whoever_comes(
    subject: Subject, change: str, is_committed: bool
) -> None:
    require_time(subject, change)

    async def scenario(fleet: Fleet) -> None:
        segment = await fleet.create("held")
        for name in ("a", "ab", "a-1"):
            await fleet.subscription(segment, name)
        positions = [(await fleet.send(segment, str(number))).position for number in range(5)]
        txn_id = await fleet.begin()
        await (await fleet.subscription(segment, "a")).acknowledge([Ack(_known(positions[1]))], txn_id)
        up_to = Ack(_known(positions[2]), is_cumulative=True)
        await (await fleet.subscription(segment, "a-1")).acknowledge([up_to], txn_id)
        await fleet.replace(change)
        assert texts(await fleet.receive(segment, "4", "a")) == ["0", "2", "3", "4"]
        assert texts(await fleet.receive(segment, "4", "a-1")) == ["3", "4"]
        assert texts(await fleet.receive(segment, "4", "ab")) == ["0", "1", "2", "3", "4"]
        await fleet.end(txn_id, is_committed=is_committed)
        await fleet.settled(txn_id)
        left = ["0", "2", "3", "4"] if is_committed else ["0", "1", "2", "3", "4"]
        assert texts(await fleet.receive(segment, "4", "a")) == left
        assert texts(await fleet.receive(segment, "4", "a-1")) == (left[2:] if is_committed else left)

    run(subject, scenario, brokers=2)


def test_the_deadline_frees_the_segment_by_itself(subject: Subject) -> None:
    async def scenario(fleet: Fleet) -> None:
        segment = await fleet.create("deadline")
        await fleet.send(segment, "before")
        txn_id = await fleet.begin(DEADLINE_MS)
        await fleet.send(segment, "inside", txn_id)
        await fleet.send(segment, "behind")
        assert await fleet.read_until(segment, "behind") == ["before", "behind"]
        await fleet.collected(txn_id)

    run(subject, scenario)


def test_of_two_who_end_it_at_once_one_decides_and_both_are_told(subject: Subject) -> None:
    async def scenario(fleet: Fleet) -> None:
        one, other = fleet.brokers[0].host.coordinator, fleet.brokers[-1].host.coordinator
        txn_ids = [await fleet.begin() for _ in range(20)]
        for txn_id in txn_ids:
            told = await asyncio.gather(one.commit(txn_id), other.abort(txn_id), return_exceptions=True)
            commit, abort = told
            if isinstance(commit, BaseException):
                assert isinstance(commit, TxnAlreadyAborted)
                assert not isinstance(abort, BaseException)
                assert (abort.state, abort.cause) == (TxnState.ABORTED, Cause.CLIENT)
            else:
                assert commit.state is TxnState.COMMITTED
                assert isinstance(abort, TxnAlreadyCommitted)
        await fleet.collected(*txn_ids)

    run(subject, scenario, brokers=2)


@every_outcome
def test_a_segment_that_is_sealed_and_trimmed_in_the_middle_holds_up_nobody(
    subject: Subject, is_committed: bool
) -> None:
    async def scenario(fleet: Fleet) -> None:
        sealed, trimmed = await fleet.create("sealed"), await fleet.create("trimmed")
        txn_id = await fleet.begin()
        for segment in (sealed, trimmed):
            await fleet.send(segment, "one", txn_id)
            await fleet.send(segment, "two", txn_id)
        last = await fleet.send(trimmed, "behind")
        await (await fleet.find(sealed)).seal()
        await (await fleet.find(trimmed)).trim(_known(last.position))
        with pytest.raises(SegmentSealed):
            await fleet.send(sealed, "late", txn_id)
        await fleet.replace("stop")
        assert await fleet.read(sealed) == []
        await fleet.end(txn_id, is_committed=is_committed)
        assert await fleet.read_until(trimmed, "behind") == ["behind"]
        await fleet.collected(txn_id)
        assert await fleet.read(sealed) == (["one", "two"] if is_committed else [])

    run(subject, scenario, brokers=2)


@every_outcome
def test_a_deleted_segment_leaves_nothing_and_its_namesake_everything(subject: Subject, is_committed: bool) -> None:
    async def scenario(fleet: Fleet) -> None:
        gone, stays = await fleet.create("1"), await fleet.create("10")
        txn_id, aborted = await fleet.begin(), await fleet.begin()
        for segment in (gone, stays):
            await fleet.subscription(segment)
            await fleet.send(segment, "aborted", aborted)
            sent = await fleet.send(segment, "inside", txn_id)
            await fleet.send(segment, "behind")
            assert sent.position is not None
        await fleet.end(aborted, is_committed=False)
        await fleet.collected(aborted)
        await fleet.delete(gone)
        everything = paths.below(paths.segment_path(gone), fleet.store.key_sorting)
        assert [key async for key in fleet.store.list(everything, partition_key=gone)] == []
        await fleet.end(txn_id, is_committed=is_committed)
        inside = ["inside"] if is_committed else []
        assert await fleet.read_until(stays, "behind") == [*inside, "behind"]
        await fleet.collected(txn_id)

    run(subject, scenario)


def _known(position: Position | None) -> Position:
    assert position is not None
    return position
