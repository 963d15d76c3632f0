"""Transactions as clients hold them: their states, what poisons them, and outcomes whose answers were lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from client_api_broker import Context, ScriptedBroker, Shelf, client_of, impatient, refused

from controller.client import BrokersUnavailable, Client, InvalidRequest, Transaction, TransactionState
from controller.pb import broker_pb2 as pb
from txn.model.errors import (
    CoordinatorUnavailable,
    InvalidTimeout,
    InvalidTxnId,
    TxnAlreadyAborted,
    TxnAlreadyCommitted,
    TxnConflict,
    TxnError,
    TxnHasFailedOperations,
    TxnNotFound,
    TxnTimedOut,
)
from txn.model.header import TxnState
from txn.segment.errors import SegmentBusy

Scenario = Callable[[ScriptedBroker, Shelf, Client], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def whole() -> None:
        shelf = Shelf()
        async with ScriptedBroker() as broker:
            broker.streams["Produce"] = shelf.produce
            async with await client_of(broker) as client:
                await scenario(broker, shelf, client)

    asyncio.run(whole())


def answering(*answers: TxnError | grpc.StatusCode | None) -> Callable[[Any, Context], Awaitable[Any]]:
    """Ends transactions with these answers, one after the other; None is success, and so is what comes behind them."""
    left = list(answers)

    async def end(request: pb.EndTransactionRequest, context: Context) -> pb.TransactionDescription:
        answer = left.pop(0) if left else None
        if isinstance(answer, grpc.StatusCode):
            await context.abort(answer, "the answer is lost")
        elif answer is not None:
            await refused(context, answer)
        return pb.TransactionDescription(txn_id=request.txn_id)

    return end


def state_of(txn: Transaction) -> TransactionState:
    """What it is now, whatever it was when it was last looked at."""
    return txn.state


def outcomes(broker: ScriptedBroker) -> list[int]:
    return [request.outcome for request in broker.asked("EndTransaction")]


def test_a_block_commits_at_its_end_when_everything_in_it_is_confirmed() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        async with await client.segment_producer("orders") as producer:
            shelf.holds.clear()

            async def block() -> None:
                async with client.transaction(timeout_ms=60_000) as txn:
                    producer.send(b"one", txn=txn)
                    producer.send(b"two", txn=txn)
                    assert state_of(txn) is TransactionState.OPEN
                assert state_of(txn) is TransactionState.COMMITTED
                assert [send.txn_id for send in shelf.stored] == [str(txn.id)] * 2

            working = asyncio.create_task(block())
            while len(shelf.arrived) < 2:
                await asyncio.sleep(0)
            assert outcomes(broker) == []
            shelf.holds.set()
            await working
            assert outcomes(broker) == [pb.COMMIT]

    run(scenario)


def test_a_failed_operation_keeps_the_transaction_from_committing() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.fails = {1: [TxnConflict("somebody was faster")]}
        async with await client.segment_producer("orders") as producer:
            txn = await client.begin()
            producer.send(b"one", txn=txn)
            producer.send(b"two", txn=txn)
            with pytest.raises(TxnHasFailedOperations, match="somebody was faster") as caught:
                await txn.commit()
            assert isinstance(caught.value.__cause__, TxnConflict)
        assert state_of(txn) is TransactionState.ABORTED
        assert outcomes(broker) == [pb.ABORT]

    run(scenario)


def test_h16_a_send_that_had_to_be_repeated_does_not_poison_its_transaction() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.cuts = [2]
        shelf.fails = {3: [SegmentBusy("later")]}
        async with await client.segment_producer("orders") as producer:
            async with client.transaction() as txn:
                for _ in range(5):
                    producer.send(b"x", txn=txn)
            assert txn.state is TransactionState.COMMITTED
        assert sorted(send.sequence_id for send in shelf.stored) == list(range(5))
        assert outcomes(broker) == [pb.COMMIT]

    run(scenario)


@pytest.mark.parametrize(
    "trouble", [grpc.StatusCode.UNAVAILABLE, CoordinatorUnavailable("not known")], ids=["lost", "unknown"]
)
def test_a_lost_answer_is_asked_for_again(trouble: Any) -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        broker.single["EndTransaction"] = answering(trouble, trouble)
        async with client.transaction() as txn:
            pass
        assert txn.state is TransactionState.COMMITTED
        assert outcomes(broker) == [pb.COMMIT] * 3

    run(scenario)


TOLD = [
    (TxnTimedOut("too late"), TransactionState.TIMED_OUT),
    (TxnAlreadyAborted("an operator did"), TransactionState.ABORTED),
    (TxnNotFound("long gone"), TransactionState.ERROR),
]


@pytest.mark.parametrize(("error", "state"), TOLD, ids=[state.value for _, state in TOLD])
def test_a_commit_that_is_refused_tells_the_true_outcome(error: TxnError, state: TransactionState) -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        broker.single["EndTransaction"] = answering(grpc.StatusCode.UNAVAILABLE, error)
        with pytest.raises(type(error), match=str(error)):
            async with client.transaction() as txn:
                pass
        assert txn.state is state
        with pytest.raises(type(error)):
            await txn.commit()
        assert len(outcomes(broker)) == 2

    run(scenario)


def test_an_outcome_that_is_not_known_is_asked_for_by_committing_again() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        broker.single["EndTransaction"] = answering(*[CoordinatorUnavailable("no store")] * 50)
        txn = await client.begin()
        with impatient(client, 0.3), pytest.raises(CoordinatorUnavailable, match="no answer within 0.3 s"):
            await txn.commit()
        assert state_of(txn) is TransactionState.COMMITTING
        with pytest.raises(InvalidRequest, match="COMMITTING"):
            txn.check_usable("send")
        broker.single["EndTransaction"] = answering()
        await txn.commit()
        assert txn.state is TransactionState.COMMITTED

    run(scenario)


def test_an_abort_tells_whether_it_came_too_late() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        txn = await client.begin()
        await txn.abort()
        await txn.abort()
        assert txn.state is TransactionState.ABORTED
        with pytest.raises(TxnAlreadyAborted, match=str(txn.id)):
            await txn.commit()
        broker.single["EndTransaction"] = answering(TxnAlreadyCommitted("it is"), TxnAlreadyAborted("it was"))
        txn = await client.begin()
        with pytest.raises(TxnAlreadyCommitted):
            await txn.abort()
        assert txn.state is TransactionState.COMMITTED
        txn = await client.begin()
        await txn.abort()
        assert txn.state is TransactionState.ABORTED

    run(scenario)


def test_its_time_is_over_here_as_well() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        async with await client.segment_producer("orders") as producer:
            txn = await client.begin(timeout_ms=30)
            while txn.state is TransactionState.OPEN:
                await asyncio.sleep(0.001)
            assert txn.state is TransactionState.TIMED_OUT
            with pytest.raises(TxnTimedOut, match="cannot send"):
                producer.send(b"x", txn=txn)
            with pytest.raises(TxnTimedOut, match="cannot commit"):
                await txn.commit()
            await txn.abort()
            assert txn.state is TransactionState.TIMED_OUT
        assert outcomes(broker) == []
        assert shelf.arrived == []

    run(scenario)


def test_an_operation_without_an_outcome_times_the_commit_out() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.holds.clear()
        async with await client.segment_producer("orders") as producer:
            txn = await client.begin(timeout_ms=50)
            producer.send(b"x", txn=txn)
            with pytest.raises(TxnTimedOut, match="under way"):
                await txn.commit()
            shelf.holds.set()
        assert outcomes(broker) == []

    run(scenario)


def test_an_error_in_the_block_aborts_and_stays_the_error() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        with pytest.raises(ZeroDivisionError) as caught:
            async with client.transaction() as txn:
                _ = 1 // 0
        assert txn.state is TransactionState.ABORTED
        assert not hasattr(caught.value, "__notes__")
        broker.single["EndTransaction"] = answering(TxnNotFound("who knows"))
        with pytest.raises(ZeroDivisionError) as caught:
            async with client.transaction() as txn:
                _ = 1 // 0
        assert txn.state is TransactionState.ERROR
        assert "was not aborted: who knows" in caught.value.__notes__[0]

    run(scenario)


def test_a_block_that_is_cancelled_aborts_at_the_side() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        began = asyncio.Event()

        async def block() -> None:
            async with client.transaction():
                began.set()
                await asyncio.get_running_loop().create_future()

        working = asyncio.create_task(block())
        await began.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert outcomes(broker) == []
        await client.close()
        assert outcomes(broker) == [pb.ABORT]

    run(scenario)


def test_a_commit_that_is_cancelled_aborts_at_the_side() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.holds.clear()
        txns = []

        async def block() -> None:
            async with client.transaction() as txn:
                txns.append(txn)
                producer.send(b"x", txn=txn)

        async with await client.segment_producer("orders") as producer:
            working = asyncio.create_task(block())
            while not (txns and state_of(txns[0]) is TransactionState.COMMITTING):
                await asyncio.sleep(0)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            while state_of(txns[0]) is not TransactionState.ABORTED:
                await asyncio.sleep(0.001)
            shelf.holds.set()
        assert outcomes(broker) == [pb.ABORT]

    run(scenario)


def test_a_block_that_has_ended_its_transaction_itself_is_left_alone() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        async with client.transaction() as txn:
            await txn.abort()
        async with client.transaction() as txn:
            await txn.commit()
        assert outcomes(broker) == [pb.ABORT, pb.COMMIT]

    run(scenario)


def test_bad_input_never_leaves_and_silence_is_told() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        for timeout_ms in (0, 600_001):
            with pytest.raises(InvalidTimeout, match="timeout_ms_max"):
                await client.begin(timeout_ms)
        with pytest.raises(InvalidTxnId, match="legacy"):
            await client.outcome("1_7")
        assert broker.asked("BeginTransaction") == []

        async def describe(request: pb.DescribeTransactionRequest, context: Context) -> pb.TransactionDescription:
            return pb.TransactionDescription(txn_id=request.txn_id, state=pb.ABORTED)

        broker.single["DescribeTransaction"] = describe
        assert await client.outcome("md_0_7") is TxnState.ABORTED
        await broker.stop()
        with impatient(client, 0.3), pytest.raises(BrokersUnavailable, match="begin a .*: no answer within 0.3 s"):
            await client.begin()

    run(scenario)
