"""One topic of a stream subscription: its membership, and the segments that this consumer has of it."""

from __future__ import annotations

from collections.abc import Callable

from controller.client.consumers.assignments import Assignment, Books, Membership, Share
from controller.client.consumers.attachments import Attachment, Place
from controller.client.segment.consuming import Assigned
from controller.subscriptions.errors import MemberReplaced
from controller.topics.errors import SubscriptionNotFound, TopicNotFound
from txn.hosting.errors import NoSuchSegment
from txn.segment.bell import Bell
from txn.segment.subscription.errors import ConsumerReplaced, SubscriptionDeleted

OUTDATED = (MemberReplaced, ConsumerReplaced, NoSuchSegment, SubscriptionDeleted, SubscriptionNotFound)
"""What a segment says to whoever comes by an old assignment: the leader knows a newer one, or soon will."""


class StreamTopic:
    """On the books of the topic's leader, and attached to what it says. `ended` is told when that is over by itself."""

    def __init__(self, place: Place, books: Books, ended: Callable[[BaseException], None]) -> None:
        self.topic = books.topic
        self._place = place
        self._ended = ended
        self._wanted: dict[int, Share] = {}
        self._division: Assigned | None = None
        self._attachments: dict[int, Attachment] = {}
        """By segment; one that is being given up stays until it is."""
        self._is_closing = False
        self._bell = Bell()
        self._membership = Membership(place.around.caller, books, self._assigned, self._membership_ended)

    @property
    def membership(self) -> Membership:
        """By which it is told what it has."""
        return self._membership

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments that it has at the moment."""
        return tuple(each.segment for each in self._attachments.values() if each.is_attached and not each.is_released)

    async def wait_attached(self) -> None:
        """Returns when it has all segments that it should have."""
        await self._bell.until(lambda: self._is_closing or self._is_attached())

    def restart(self) -> None:
        """The subscription was put elsewhere."""
        for each in self._attachments.values():
            each.restart()

    async def close(self, *, leave: bool) -> None:
        """Gives everything up at once, acknowledgements under way excepted; then leaves, if it is to."""
        self._is_closing = True
        self._bell.ring()
        attachments = list(self._attachments.values())
        for each in attachments:
            each.release(in_hurry=True)
        for each in attachments:
            await each.wait_closed()
        await self._membership.close(leave=leave)

    # -- assignments

    def _assigned(self, told: Assignment) -> None:
        self._division, self._wanted = told.number, dict(told.shares)
        self._reconcile()

    def _reconcile(self) -> None:
        """Gives up what is not its own any more, then attaches to what it has not."""
        if self._is_closing or self._division is None:
            return
        for segment_id, attachment in self._attachments.items():
            if self._wanted.get(segment_id) == attachment.share:
                attachment.divided_by(self._division)
            else:
                attachment.release()
        for segment_id, share in self._wanted.items():
            if segment_id not in self._attachments:
                self._attachments[segment_id] = Attachment(
                    self._place, str(self.topic), share, self._division, self._bell.ring, self._given_up
                )
        self._bell.ring()

    def _given_up(self, attachment: Attachment, failure: BaseException | None) -> None:
        segment_id = attachment.share.segment_id
        assert self._attachments.pop(segment_id) is attachment, "a segment is attached to once at a time"
        if self._is_closing or attachment.is_released or failure is None:
            self._reconcile()
        elif isinstance(failure, OUTDATED):
            self._wanted.pop(segment_id, None)
            self._membership.ask_again()
        else:
            self._ended(failure)
        self._bell.ring()

    def _is_attached(self) -> bool:
        return self._division is not None and all(
            segment_id in self._attachments and self._attachments[segment_id].is_attached for segment_id in self._wanted
        )

    def _membership_ended(self, failure: BaseException) -> None:
        if not self._is_closing:
            self._wanted.clear()
            for each in self._attachments.values():
                each.release(in_hurry=isinstance(failure, MemberReplaced | SubscriptionNotFound | TopicNotFound))
            self._ended(failure)
