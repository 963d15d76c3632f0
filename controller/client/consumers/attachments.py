"""A segment as a consumer that keeps order has it: taken over, read, and given up in good order.

    TAKING OVER ──> READING ──> GIVING UP ──> closed
         └──────────────┴── (refused: somebody newer has it) ──> closed

Whoever had the segment before gives it up when what it was given is acknowledged: until then it is waited for, with
pauses, and for no longer than TAKEOVER_S. In the same way this side stops receiving, waits for the application to
acknowledge what it has, for no longer than RELEASE_S, and closes. What is not acknowledged by then comes to whoever has
the segment next, and acknowledging it here is too late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from controller.client.confirmations import Confirmation, all_of
from controller.client.consumers.assignments import Share
from controller.client.consumers.intake import Intake
from controller.client.consumers.messages import StreamMessage
from controller.client.consumers.progress import (
    CameAgain,
    Claim,
    HandedOut,
    Progress,
    Reached,
    SharedProgress,
    WholeProgress,
)
from controller.client.consumers.surroundings import Surroundings
from controller.client.errors import AckTooLate, ClientClosed
from controller.client.segment.consumer import SegmentConsumer
from controller.client.segment.consuming import Assigned, SegmentConsumerOptions
from controller.client.segment.credits import Budget
from controller.client.transaction import Transaction
from controller.client.values import Edge, Message, Received, SubscriptionKind
from metastore.coordination import Backoff
from txn.coordinator.waiting import first_of
from txn.model.errors import TxnError, TxnRetriable
from txn.segment.bell import Bell
from txn.segment.subscription.errors import ConsumerBusy

R = TypeVar("R", Message, Received)

TAKEOVER_S = 30.0
"""How long whoever had a segment before may take to give it up; then it is taken from it."""
RELEASE_S = 20.0
"""How long the application may take to acknowledge what it has of a segment that others are to have."""


@dataclass(frozen=True, slots=True)
class Place:
    """What all segments of one consumer share."""

    around: Surroundings
    subscription: str
    consumer: str
    budget: Budget
    intake: Intake[StreamMessage]
    received: Callable[[Attachment, HandedOut], list[StreamMessage]]
    """Makes messages of what is handed out next."""
    takeover_s: float = TAKEOVER_S
    release_s: float = RELEASE_S
    start: Edge | None = None
    """Where a segment is begun of which nobody has said where it is; None: somebody has."""


class Attachment:
    """One segment, from the moment on at which it was assigned.

    `attached` is called when it has been taken over; `ended` is told what it has ended with, if anything.
    """

    def __init__(
        self,
        place: Place,
        topic: str,
        share: Share,
        division: Assigned,
        attached: Callable[[], None],
        ended: Callable[[Attachment, BaseException | None], None],
    ) -> None:
        self.topic = topic
        self.share = share
        self.division = division
        self._place = place
        self._attached = attached
        self._progress = self._new_progress()
        self._consumer: SegmentConsumer | None = None
        self._newcomer: SegmentConsumer | None = None
        """Who is taking the segment over; messages may come to it already."""
        self._turn = 0
        """Of the segment's consumer, when something was taken from it."""
        self._bell = Bell()
        self._is_released = False
        self._is_in_hurry = False
        self._is_closed = False
        self._task = asyncio.create_task(self._run(), name=f"{place.subscription!r} of {share.segment}")
        self._task.add_done_callback(lambda task: ended(self, None if task.cancelled() else task.exception()))

    @property
    def segment(self) -> str:
        """The segment's name."""
        return self.share.segment

    def is_of(self, place: Place) -> bool:
        """Whether it belongs to that consumer."""
        return self._place is place

    @property
    def is_released(self) -> bool:
        """Whether nothing more is received from it."""
        return self._is_released

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing of it is left that could be acknowledged."""
        return self._is_closed and self._progress.is_settled

    @property
    def is_attached(self) -> bool:
        """Whether it has the segment."""
        return self._consumer is not None and not self._is_closed

    def divided_by(self, division: Assigned) -> None:
        """A newer division has left the segment where it was."""
        self.division = division
        if self._consumer is not None:
            self._consumer.assigned_by(division)

    def release(self, *, in_hurry: bool = False) -> None:
        """Gives the segment up: in a hurry without waiting for what is not acknowledged."""
        self._is_in_hurry = self._is_in_hurry or in_hurry
        self._is_released = True
        self._bell.ring()

    async def wait_closed(self) -> None:
        """Returns when it has given the segment up."""
        await asyncio.wait([self._task])

    def restart(self) -> None:
        """The subscription was put elsewhere: what was received before is void."""
        self._progress = self._new_progress()
        for each in (self._newcomer, self._consumer):
            if each is not None:
                each.renew()

    def _new_progress(self) -> Progress:
        return SharedProgress() if self.share.buckets else WholeProgress()

    # -- messages and acknowledgements

    def is_void(self, reached: Reached) -> bool:
        """Whether what was received of the segment up to there comes again."""
        return self._progress.is_void(reached)

    def take(self, messages_max: int) -> list[StreamMessage]:
        """The next messages that are there, and that the application does not have, up to so many."""
        if self._consumer is None or self._is_released:
            return []
        while messages := self._consumer.take(min(messages_max, self._progress.room)):
            if self._consumer.turn != self._turn:
                self._turn = self._consumer.turn
                self._progress.renew()
            handed_out = self._progress.hand_out(messages)
            if handed_out.messages:
                return self._place.received(self, handed_out)
        return []

    def acknowledge(self, reached: Reached, txn: Transaction | None) -> Confirmation[None] | None:
        """Acknowledges all that was received of the segment up to there; None if that is done.

        AckTooLate if it comes again, or is somebody else's now.
        """
        progress = self._progress
        try:
            claim = progress.claim(reached, txn)
        except CameAgain:
            raise AckTooLate(f"messages of {self.segment} come again: receive and process them once more") from None
        if claim is None:
            return None
        if self._consumer is None or self._is_closed:
            progress.settle(claim, True)  # it is told once
            raise AckTooLate(f"{self.segment} was given up before all of it was acknowledged: others have it now")
        try:
            outcome = all_of(list(self._confirmations(self._consumer, progress, claim)))
        except BaseException as error:
            self._settle(progress, claim, error)
            raise
        if txn is not None or not self.share.buckets:
            outcome.listen(lambda failure: self._settle(progress, claim, failure))
        return outcome

    def _confirmations(
        self, consumer: SegmentConsumer, progress: Progress, claim: Claim
    ) -> Iterator[Confirmation[None]]:
        if not self.share.buckets:
            yield consumer.acknowledge_cumulative(claim.messages[-1], txn=claim.txn)
            return
        for part in parts(claim.messages, self._place.around.limits.acks_per_request_max):
            confirmation = consumer.acknowledge(*part, txn=claim.txn)
            if claim.txn is None:  # a transaction gets all of it or nothing; otherwise each part stands for itself
                confirmation.listen(partial(self._settle, progress, claim, part=part))
            yield confirmation

    def _settle(
        self,
        progress: Progress,
        claim: Claim,
        failure: BaseException | None,
        part: Sequence[Received] | None = None,
    ) -> None:
        is_shared, is_too_late = bool(self.share.buckets), isinstance(failure, AckTooLate)
        # Of a shared segment all is acknowledged then but what others have been given: none of it is to be done here.
        is_done = failure is None or (is_too_late and is_shared and claim.txn is None)
        progress.settle(claim, is_done, part)
        if is_too_late and not is_shared and self._is_released:
            self._is_in_hurry = True  # what the application has cannot be acknowledged any more, and no more comes here
        if failure is not None and claim.txn is not None and self._consumer is not None and not self._is_closed:
            self._consumer.renew()  # an aborted transaction's messages come again, also those that it failed to get
        self._bell.ring()
        self._arrived()

    # -- from beginning to end

    async def _run(self) -> None:
        try:
            if await self._take_over():
                await self._read()
        finally:
            self._is_closed = True
            self._place.intake.withdraw(self)

    async def _read(self) -> None:
        """Until it is to be given up, or is taken away."""
        consumer = self._consumer
        assert consumer is not None, "it was taken over"
        try:
            await first_of(self._bell.until(lambda: self._is_released), _ended(consumer))
            consumer.quiet()
            self._place.intake.withdraw(self)
            await first_of(
                self._bell.until(lambda: self._is_in_hurry or self._progress.is_settled),
                self._place.around.caller.pace.sleep(self._place.release_s),
                _ended(consumer),
            )
        finally:
            self._is_closed = True
            await consumer.close()

    async def _take_over(self) -> bool:
        """Attaches, and waits for others to go; False if it is to be given up before."""
        pace = self._place.around.caller.pace
        backoff = Backoff(pace)
        busy_since_s: float | None = None
        while not self._is_released:
            now_s = pace.clock.monotonic_s()
            replaces = busy_since_s is not None and now_s - busy_since_s >= self._place.takeover_s
            self._newcomer = consumer = self._new_consumer(replaces)
            try:
                await first_of(consumer.wait_opened(), self._bell.until(lambda: self._is_released))
                if not self._is_released:
                    self._consumer = consumer
                    self._attached()
                    self._arrived()
                    return True
            except ConsumerBusy:
                busy_since_s = now_s if busy_since_s is None else busy_since_s
            except TxnRetriable:
                busy_since_s = None  # nobody says that somebody has it
            finally:
                self._newcomer = None
                if self._consumer is not consumer:
                    await consumer.close()
            await first_of(backoff.pause(), self._bell.until(lambda: self._is_released))
        return False

    def _new_consumer(self, replaces: bool) -> SegmentConsumer:
        place = self._place
        kind = SubscriptionKind.KEY_SHARED if self.share.buckets else SubscriptionKind.EXCLUSIVE
        options = SegmentConsumerOptions(
            kind, place.start, place.consumer, buckets=self.share.buckets, assigned=self.division, replaces=replaces
        )
        return SegmentConsumer(
            place.around.caller,
            place.around.limits,
            self.segment,
            place.subscription,
            options,
            budget=place.budget,
            arrived=self._arrived,
        )

    def _arrived(self) -> None:
        if self._consumer is not None and not self._is_released:
            self._place.intake.announce(self)


async def _ended(consumer: SegmentConsumer) -> None:
    """Returns never; raises what a segment's consumer has ended with."""
    await asyncio.wait([consumer.running])
    if consumer.running.cancelled() or (error := consumer.running.exception()) is None:
        raise ClientClosed(f"the consumer of {consumer.segment} is closed")
    assert isinstance(error, TxnError), "streams end with errors of the tree"
    raise error


def parts(messages: Sequence[R], messages_max: int) -> Iterator[Sequence[R]]:
    """Messages in groups that each fit into one request."""
    for at in range(0, len(messages), messages_max):
        yield messages[at : at + messages_max]
