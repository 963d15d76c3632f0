"""What clients call, each call noted: when it began, and what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from txn.coordinator.coordinator import Coordinator
from txn.hosting.segment import Segment
from txn.model.errors import (
    CoordinatorUnavailable,
    SegmentUnavailable,
    TooManyOpenTransactions,
    TooManyOperations,
    TxnAlreadyAborted,
    TxnAlreadyCommitted,
    TxnConflict,
    TxnError,
    TxnFatal,
    TxnNotFound,
    TxnTimedOut,
)
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.buffer import Published
from txn.segment.cursor import Ack
from txn.segment.entry import Entry
from txn.segment.errors import CursorTooLarge, SegmentBusy, SegmentFull
from txn.segment.subscription import AckTooLate, Subscription
from txn_histories.notes import START, AckOf, Fate
from txn_histories.recorder import Recorder, written

UNCHANGED = (
    TxnConflict,
    AckTooLate,
    TxnTimedOut,
    TooManyOperations,
    TooManyOpenTransactions,
    SegmentBusy,
    SegmentFull,
    CursorTooLarge,
    TxnFatal,
)
"""Whoever is told so knows that his call has changed nothing."""
DECISIONS = {
    TxnAlreadyCommitted: TxnState.COMMITTED,
    TxnAlreadyAborted: TxnState.ABORTED,
    TxnTimedOut: TxnState.ABORTED,
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Told:
    """What a caller knows afterwards."""

    fate: Fate
    error: TxnError | None = None

    @property
    def is_done(self) -> bool:
        return self.fate is Fate.DONE


def fate_of(error: TxnError) -> Fate:
    """What an error says about what has happened."""
    return Fate.REFUSED if isinstance(error, UNCHANGED) else Fate.UNKNOWN


async def publish(
    recorder: Recorder,
    segment: Segment,
    entry: Entry,
    through: Callable[[asyncio.Future[Published]], Awaitable[Published]],
) -> Told:
    """Sends a message once. The place in the order is taken before anything is waited for."""
    call = recorder.call(
        "send",
        message=entry.payload.decode(),
        segment=segment.name,
        producer=entry.producer,
        sequence_id=entry.sequence_id,
        txn=None if entry.txn_id is None else str(entry.txn_id),
        count=entry.message_count,
    )
    try:
        published = await through(segment.publish(entry))
    except TxnError as error:
        fate = fate_of(error)
        call.end(fate=fate.value)
        return Told(fate, error)
    position = None if published.position is None else str(published.position)
    call.end(fate=Fate.DONE.value, position=position, is_duplicate=published.is_duplicate)
    return Told(Fate.DONE)


async def acknowledge(
    recorder: Recorder,
    subscription: Subscription,
    segment: str,
    acks: Sequence[Ack],
    txn_id: TxnId | None,
    era: int | None = None,
    since: Position = START,
) -> Told:
    """Acknowledges once, what was given in that era, by a consumer who was shown that first."""
    whole = [AckOf(each.position, each.is_cumulative, each.batch, since) for each in acks]
    txn = None if txn_id is None else str(txn_id)
    call = recorder.call("ack", segment=segment, subscription=subscription.name, acks=written(whole), txn=txn)
    try:
        await subscription.acknowledge(acks, txn_id, era=era)
    except TxnError as error:
        fate = fate_of(error)
        call.end(fate=fate.value)
        return Told(fate, error)
    call.end(fate=Fate.DONE.value)
    return Told(Fate.DONE)


async def end(
    recorder: Recorder, coordinator: Coordinator, txn_id: TxnId, wanted: TxnState, now_ms: Callable[[], int]
) -> TxnState | None:
    """Asks for an end once; the outcome, if it was told."""
    call = recorder.call("ending", txn=str(txn_id), wanted=wanted.value, at_ms=now_ms())
    try:
        ask = coordinator.commit if wanted is TxnState.COMMITTED else coordinator.abort
        state = (await ask(txn_id)).state
    except (TxnAlreadyCommitted, TxnAlreadyAborted, TxnTimedOut) as error:
        state = DECISIONS[type(error)]
        call.end(outcome=state.value, is_deadline=isinstance(error, TxnTimedOut), at_ms=now_ms())
    except TxnNotFound:
        call.end(at_ms=now_ms())
        raise
    except (CoordinatorUnavailable, SegmentUnavailable):
        return None
    else:
        call.end(outcome=state.value, at_ms=now_ms())
    return state


async def look(recorder: Recorder, coordinator: Coordinator, txn_id: TxnId) -> TxnState | None:
    """Asks how a transaction is; None if it is gone, or cannot be asked."""
    call = recorder.call("look", txn=str(txn_id))
    try:
        header = await coordinator.describe(txn_id)
    except TxnNotFound:
        return None
    call.end(state=header.state.value)
    return header.state
