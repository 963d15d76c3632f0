"""How operations are cut into requests, and how many may be under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.interface.errors import Overloaded, StoreClosed
from metastore.providers.wire.backlog import Backlog, Batch, Kind, Operation
from metastore.providers.wire.window import Window

WRITES = (Kind.PUT, Kind.DELETE, Kind.DELETE_RANGE)


def future() -> asyncio.Future[object]:
    """A future that needs no running loop."""
    return asyncio.Future(loop=_LOOP)


_LOOP = asyncio.new_event_loop()


@pytest.fixture(scope="module", autouse=True)
def _close_the_loop() -> object:
    yield
    _LOOP.close()


def operation(kind: Kind = Kind.PUT, key: str = "k", size: int = 1, is_exclusive: bool = False) -> Operation:
    return Operation(kind, key, b"x" * size, future(), is_exclusive)


def backlog(operations: Sequence[Operation], operations_max: int = 100, bytes_max: int = 1000) -> Backlog:
    made = Backlog(operations_max, bytes_max, on_drop=lambda dropped: None)
    for each in operations:
        made.append(each)
    return made


def batches(made: Backlog) -> list[list[Operation]]:
    found = []
    while (batch := made.take()) is not None:
        found.append(batch.operations)
    return found


def in_the_order_of_the_server(batch: list[Operation]) -> list[Operation]:
    return [each for kind in WRITES for each in batch if each.kind is kind]


@given(
    st.lists(st.tuples(st.sampled_from(WRITES), st.sampled_from("abc"), st.integers(1, 30)), max_size=40),
    st.integers(1, 8),
    st.integers(1, 60),
)
def test_requests_keep_bounds_and_the_order_of_each_key(
    asked: list[tuple[Kind, str, int]], operations_max: int, bytes_max: int
) -> None:
    operations = [operation(*each) for each in asked]
    cut = batches(backlog(operations, operations_max, bytes_max))
    assert [each for batch in cut for each in batch] == operations
    for batch in cut:
        assert len(batch) <= operations_max
        assert len(batch) == 1 or sum(len(each.encoded) for each in batch) <= bytes_max
    done = [each for batch in cut for each in in_the_order_of_the_server(batch)]
    for key in "abc":
        # A range may hold any key.
        concerned = [each for each in operations if each.key == key or each.kind is Kind.DELETE_RANGE]
        assert [each for each in done if each in concerned] == concerned


def test_those_whose_callers_have_gone_are_left_out() -> None:
    dropped: list[Operation] = []
    made = Backlog(10, 1000, dropped.append)
    operations = [operation(key=str(number)) for number in range(4)]
    for each in operations:
        made.append(each)
    operations[1].future.cancel()
    operations[3].future.cancel()
    assert batches(made) == [[operations[0], operations[2]]]
    assert dropped == [operations[1], operations[3]]


def test_what_was_refused_goes_alone() -> None:
    operations = [operation(key=str(number)) for number in range(4)]
    made = backlog(operations[2:])
    for each in operations[:2]:
        each.is_alone = True
    made.put_back(operations[:2])
    assert batches(made) == [[operations[0]], [operations[1]], [operations[2], operations[3]]]
    assert Batch([operations[0]]).is_exclusive
    assert not Batch([operations[2]]).is_exclusive


def test_what_must_be_under_way_by_itself_waits_until_it_can() -> None:
    operations = [operation(), operation(is_exclusive=True), operation()]
    made = backlog(operations)
    first = made.take(may_be_exclusive=False)
    assert first is not None
    assert first.operations == operations[:1]
    assert made.take(may_be_exclusive=False) is None
    second = made.take()
    assert second is not None
    assert second.operations == operations[1:]
    assert second.is_exclusive


def test_a_full_batch_is_known_by_its_number_or_its_size() -> None:
    assert not backlog([operation()] * 2, operations_max=3).fills_a_batch
    assert backlog([operation()] * 3, operations_max=3).fills_a_batch
    assert backlog([operation(size=10)], bytes_max=10).fills_a_batch
    made = backlog([operation(size=10)], bytes_max=10)
    assert made.take() is not None
    assert not made.fills_a_batch


def test_only_the_overdue_are_taken_out() -> None:
    operations = [operation(key=str(number)) for number in range(3)]
    for number, each in enumerate(operations):
        each.deadline_s = float(number)
    made = backlog(operations)
    assert made.oldest_deadline_s == 0.0
    assert list(made.expired(1.0)) == operations[:2]
    assert made.oldest_deadline_s == 2.0
    assert made.empty() == operations[2:]
    assert made.oldest_deadline_s is None


def test_a_window_is_full_at_its_limits() -> None:
    window = Window(operations_max=2, bytes_max=10)
    assert window.try_enter(4)
    assert not window.try_enter(7)
    assert window.try_enter(6)
    assert not window.try_enter(0)
    window.leave(6)
    assert window.try_enter(1)


def test_one_that_is_too_large_for_a_window_enters_alone() -> None:
    window = Window(operations_max=2, bytes_max=10)
    assert window.try_enter(1000)
    assert not window.try_enter(1)
    window.leave(1000)
    assert window.try_enter(1)
    assert not window.try_enter(1000)


def test_callers_enter_in_the_order_in_which_they_came() -> None:
    async def scenario() -> None:
        window = Window(operations_max=2, bytes_max=10)
        assert window.try_enter(8)
        entered: list[str] = []

        async def enter(name: str, size: int) -> None:
            await window.enter(size, 60, name)
            entered.append(name)

        waiting = [asyncio.create_task(enter(name, size)) for name, size in (("large", 9), ("gone", 1), ("small", 1))]
        await asyncio.sleep(0)
        assert not window.try_enter(1), "nobody overtakes those who wait"
        waiting[1].cancel()
        await asyncio.sleep(0)
        window.leave(8)
        await asyncio.sleep(0)
        assert entered == ["large", "small"]
        assert (window.operations, window.size_bytes) == (2, 10)
        await asyncio.wait(waiting)

    asyncio.run(scenario())


def test_who_is_cancelled_just_as_it_enters_leaves_again() -> None:
    async def scenario() -> None:
        window = Window(operations_max=1, bytes_max=10)
        assert window.try_enter(1)
        waiting = asyncio.create_task(window.enter(1, 60, "put 'a'"))
        await asyncio.sleep(0)
        window.leave(1)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        assert (window.operations, window.size_bytes) == (0, 0)

    asyncio.run(scenario())


def test_a_window_that_stays_full_is_an_overload() -> None:
    async def scenario() -> None:
        window = Window(operations_max=1, bytes_max=10, waiters_max=1)
        assert window.try_enter(1)
        with pytest.raises(Overloaded, match="WINDOW_OPERATIONS_MAX"):
            await window.enter(1, 0.001, "put 'a'")
        waiting = asyncio.create_task(window.enter(1, 60, "put 'a'"))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="WINDOW_WAITERS_MAX"):
            await window.enter(1, 60, "put 'a'")
        window.refuse_waiters("closed")
        with pytest.raises(StoreClosed, match="closed"):
            await waiting

    asyncio.run(scenario())
