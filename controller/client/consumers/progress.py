"""What was handed out of one segment to a consumer that keeps order, and how far that is acknowledged. Pure.

A message that the application has, and has not acknowledged, is not handed out a second time: behind a broken stream
everything comes again that was not acknowledged, and the application has it. What was acknowledged and comes all the
same is another matter: its transaction was aborted, or somebody has put the subscription back. Then a segment that is
read in order begins a new *turn*, and nothing that was received before it can be acknowledged any more: it would cover
what comes again. From the abort on until that comes nothing is handed out: it would be out of order, and comes as well.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from controller.client.transaction import Transaction, TransactionState
from controller.client.values import Message, MessageId

UNACKED_MAX = 100_000
"""Messages of a shared segment that one consumer has and has not acknowledged; then it is handed no more of it."""

_LOST = (TransactionState.ABORTED, TransactionState.ABORTING, TransactionState.TIMED_OUT)


class Reached(NamedTuple):
    """How far a segment was handed out."""

    message: Message
    """The last one, without its content."""
    turn: int
    """Of a whole segment; of a shared one, how many messages had been handed out by then."""


@dataclass(frozen=True, eq=False)
class Claim:
    """What one acknowledgement is about."""

    messages: Sequence[Message]
    """Without their contents; of a whole segment, the last one."""
    txn: Transaction | None = None


class CameAgain(Exception):
    """What was received before is void: it comes again."""


class Progress(Protocol):
    """Of one segment."""

    @property
    def is_settled(self) -> bool:
        """Whether all that was handed out is acknowledged."""

    @property
    def has_room(self) -> bool:
        """Whether more may be handed out."""

    def hand_out(self, message: Message) -> Reached | None:
        """A message is about to be handed out; None if the application has it, or it comes again behind others."""

    def renew(self) -> None:
        """Delivery has begun anew: what is handed out next is what is to come now."""

    def claim(self, reached: Reached, txn: Transaction | None) -> Claim | None:
        """What is to be acknowledged so that everything up to there is; None if nothing is left. CameAgain if void."""

    def settle(self, claim: Claim, is_acknowledged: bool) -> None:
        """What has become of it."""


class WholeProgress:
    """Of a segment that the consumer has for itself: its messages come in their order."""

    def __init__(self) -> None:
        self._last: MessageId | None = None
        self._handed_out: OrderedDict[MessageId, None] = OrderedDict()
        """Of this turn, but for what is acknowledged."""
        self._acknowledged: MessageId | None = None
        self._claims: list[Claim] = []
        """Under way, or acknowledged in transactions that are not decided yet."""
        self._turn = 0

    @property
    def has_room(self) -> bool:
        return True

    @property
    def is_settled(self) -> bool:
        return self._last is None or (self._acknowledged is not None and self._acknowledged >= self._last)

    def hand_out(self, message: Message) -> Reached | None:
        if self._is_covered(message.id):
            self._void()
        elif any(_is_lost(each) for each in self._claims) or message.id in self._handed_out:
            return None
        elif self._last is not None and message.id <= self._last:
            self._begin_turn()  # somebody else's transaction had it, and let it go: it comes with all behind it
        self._last = message.id
        self._handed_out[message.id] = None
        return Reached(bare(message), self._turn)

    def renew(self) -> None:
        if any(_is_lost(each) for each in self._claims):
            self._void()

    def _void(self) -> None:
        """What was received is not acknowledged any more; it comes again, or somebody has decided otherwise."""
        self._begin_turn()
        self._acknowledged = None
        self._claims.clear()

    def _begin_turn(self) -> None:
        """What was received, and is not acknowledged, comes again."""
        self._turn += 1
        self._last = None
        self._handed_out.clear()

    def claim(self, reached: Reached, txn: Transaction | None) -> Claim | None:
        # What another transaction had acknowledged comes again if that was aborted, be it here already or not.
        if reached.turn != self._turn or any(_is_lost(each) for each in self._claims):
            raise CameAgain
        self._claims = [each for each in self._claims if not _is_committed(each)]
        if self._is_covered(reached.message.id):
            return None
        claim = Claim([reached.message], txn)
        self._claims.append(claim)
        return claim

    def settle(self, claim: Claim, is_acknowledged: bool) -> None:
        if claim not in self._claims:
            return  # of a turn before
        if is_acknowledged:
            last = claim.messages[-1].id
            self._acknowledged = last if self._acknowledged is None else max(self._acknowledged, last)
            while self._handed_out and next(iter(self._handed_out)) <= last:
                self._handed_out.popitem(last=False)
        elif claim.txn is not None:
            self._begin_turn()  # it cannot commit, and what it had comes again
        if not is_acknowledged or claim.txn is None:
            self._claims.remove(claim)

    def _is_covered(self, id: MessageId) -> bool:
        """Whether it is acknowledged, or is about to be."""
        if self._acknowledged is not None and id <= self._acknowledged:
            return True
        return any(id <= claim.messages[-1].id for claim in self._claims)


class SharedProgress:
    """Of a segment that several consumers share by keys: what lies between may be others'."""

    def __init__(self, unacked_max: int = UNACKED_MAX) -> None:
        self._unacked: dict[MessageId, Reached] = {}
        self._under_way: dict[MessageId, Claim] = {}
        self._unacked_max = unacked_max
        self._handed_out = 0

    @property
    def has_room(self) -> bool:
        return len(self._unacked) < self._unacked_max

    @property
    def is_settled(self) -> bool:
        return not self._unacked and not self._under_way

    def hand_out(self, message: Message) -> Reached | None:
        if message.id in self._unacked or message.id in self._under_way:
            return None
        self._handed_out += 1
        self._unacked[message.id] = reached = Reached(bare(message), self._handed_out)
        return reached

    def renew(self) -> None:
        """What the application has it has."""

    def claim(self, reached: Reached, txn: Transaction | None) -> Claim | None:
        # By when it was received, not by where it is: what others had comes later, and may lie before it.
        found = [each.message for each in self._unacked.values() if each.turn <= reached.turn]
        if not found:
            return None
        claim = Claim(found, txn)
        for each in found:
            del self._unacked[each.id]
            self._under_way[each.id] = claim
        return claim

    def settle(self, claim: Claim, is_acknowledged: bool) -> None:
        for each in claim.messages:
            if self._under_way.get(each.id) is claim:
                del self._under_way[each.id]
                if not is_acknowledged and claim.txn is None:  # of a transaction, which cannot commit, it comes again
                    self._unacked[each.id] = Reached(each, 0)


def bare(message: Message) -> Message:
    """A message without its content: what is needed to acknowledge it."""
    return replace(message, payload=b"", properties={})


def _is_lost(claim: Claim) -> bool:
    return claim.txn is not None and claim.txn.state in _LOST


def _is_committed(claim: Claim) -> bool:
    return claim.txn is not None and claim.txn.state is TransactionState.COMMITTED
