"""What was handed out of one segment to a consumer that keeps order, and how far that is acknowledged. Pure.

A message that the application has, and has not acknowledged, is not handed out a second time: behind a broken stream
everything comes again that was not acknowledged, and the application has it. What was acknowledged and comes all the
same is another matter: its transaction was aborted, or somebody has put the subscription back. Then a segment that is
read in order begins a new *turn*, and nothing that was received before it can be acknowledged any more: it would cover
what comes again. From the abort on until that comes nothing is handed out: it would be out of order, and comes as well.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from operator import lt
from typing import NamedTuple, Protocol

from controller.client.transaction import Transaction, TransactionState
from controller.client.values import Message, MessageId, Received

UNACKED_MAX = 100_000
"""Messages of a shared segment that one consumer has and has not acknowledged; then it is handed no more of it."""

_LOST = (TransactionState.ABORTED, TransactionState.ABORTING, TransactionState.TIMED_OUT)


class Reached(NamedTuple):
    """How far a segment was handed out."""

    message: Received
    """The last one."""
    turn: int
    """Of a whole segment; of a shared one, how many messages had been handed out by then."""


def reached_with(message: Message, turn: int) -> Reached:
    """How far its segment was handed out with a message."""
    return Reached(message.received, turn)


class HandedOut(NamedTuple):
    """Messages that the application gets, in this order; there may be none."""

    messages: Sequence[Message]
    turns: Sequence[int]
    """Of each, as `Reached` has it."""


@dataclass(frozen=True, eq=False)
class Claim:
    """What one acknowledgement is about."""

    messages: Sequence[Received]
    """Of a whole segment, the last one."""
    txn: Transaction | None = None


class CameAgain(Exception):
    """What was received before is void: it comes again."""


class Progress(Protocol):
    """Of one segment."""

    @property
    def is_settled(self) -> bool:
        """Whether all that was handed out is acknowledged."""

    @property
    def room(self) -> int:
        """How many messages may be handed out."""

    def hand_out(self, messages: Sequence[Message]) -> HandedOut:
        """Messages are about to be handed out: without those that the application has, or that come again behind
        others."""

    def renew(self) -> None:
        """Delivery has begun anew: what is handed out next is what is to come now."""

    def is_void(self, reached: Reached) -> bool:
        """Whether it cannot be acknowledged any more, for it comes again."""

    def claim(self, reached: Reached, txn: Transaction | None) -> Claim | None:
        """What is to be acknowledged so that everything up to there is; None if nothing is left. CameAgain if void."""

    def settle(self, claim: Claim, is_done: bool, part: Sequence[Received] | None = None) -> None:
        """What has become of it, or of a part: it is acknowledged, or else others have it; or the application still."""


class _Ascending:
    """Ids, each greater than the one before; the first ones go first. Nothing is done for single ones in Python."""

    def __init__(self) -> None:
        self._ids: list[MessageId] = []
        self._gone = 0

    def __contains__(self, at: MessageId) -> bool:
        place = bisect_left(self._ids, at, self._gone)
        return place < len(self._ids) and self._ids[place] == at

    def extend(self, ids: Sequence[MessageId]) -> None:
        """Greater ones."""
        self._ids.extend(ids)

    def drop_through(self, last: MessageId) -> None:
        """Up to this one."""
        self._gone = bisect_right(self._ids, last, self._gone)
        if 2 * self._gone >= len(self._ids):
            del self._ids[: self._gone]
            self._gone = 0

    def clear(self) -> None:
        """All."""
        self._ids.clear()
        self._gone = 0


class WholeProgress:
    """Of a segment that the consumer has for itself: its messages come in their order."""

    def __init__(self) -> None:
        self._last: MessageId | None = None
        self._handed_out = _Ascending()
        """Of this turn, but for what is acknowledged."""
        self._acknowledged: MessageId | None = None
        self._claims: dict[Claim, None] = {}
        """Under way, or acknowledged in transactions that are not decided yet."""
        self._undecided: dict[Claim, None] = {}
        """Those of them in transactions."""
        self._covered: MessageId | None = None
        """Everything up to there is acknowledged, or is about to be."""
        self._turn = 0
        self._era = 0
        """Of what was handed out last: of an older one nothing can be acknowledged, and all of it comes again."""

    @property
    def room(self) -> int:
        return sys.maxsize

    @property
    def is_settled(self) -> bool:
        return self._last is None or (self._acknowledged is not None and self._acknowledged >= self._last)

    def hand_out(self, messages: Sequence[Message]) -> HandedOut:
        ids = [message.id for message in messages]
        if self._are_next(messages, ids):
            self._last = ids[-1]
            self._handed_out.extend(ids)
            return HandedOut(messages, [self._turn] * len(messages))
        return self._hand_out_singly(messages)

    def _are_next(self, messages: Sequence[Message], ids: Sequence[MessageId]) -> bool:
        """Whether all of them are simply the next ones, as they nearly always are."""
        if self._last is None or self._undecided or not ids or ids[0] <= self._last:
            return False
        return all(map(lt, ids, islice(ids, 1, None))) and {message.era for message in messages} == {self._era}

    def _hand_out_singly(self, messages: Sequence[Message]) -> HandedOut:
        handed_out: list[Message] = []
        turns: list[int] = []
        for message in messages:
            at = message.id
            if message.era != self._era:
                self._era = message.era
                self._begin_turn()
            is_next = self._last is not None and at > self._last and not self._undecided
            if is_next or self._may_hand_out(at):
                self._last = at
                self._handed_out.extend((at,))
                handed_out.append(message)
                turns.append(self._turn)
        return HandedOut(handed_out, turns)

    def _may_hand_out(self, at: MessageId) -> bool:
        """Of what is not simply the next: whether it comes now, in this turn or in a new one."""
        if self._is_covered(at):
            self._void()
        elif self._is_lost or at in self._handed_out:
            return False
        elif self._last is not None and at <= self._last:
            self._begin_turn()  # somebody else's transaction had it, and let it go: it comes with all behind it
        return True

    def renew(self) -> None:
        if self._is_lost:
            self._void()

    def _void(self) -> None:
        """What was received is not acknowledged any more; it comes again, or somebody has decided otherwise."""
        self._begin_turn()
        self._acknowledged = self._covered = None
        self._claims.clear()
        self._undecided.clear()

    def _begin_turn(self) -> None:
        """What was received, and is not acknowledged, comes again."""
        self._turn += 1
        self._last = None
        self._handed_out.clear()

    def is_void(self, reached: Reached) -> bool:
        # What another transaction had acknowledged comes again if that was aborted, be it here already or not.
        return reached.turn != self._turn or self._is_lost

    def claim(self, reached: Reached, txn: Transaction | None) -> Claim | None:
        if self.is_void(reached):
            raise CameAgain
        for each in [each for each in self._undecided if _is_committed(each)]:
            self._drop(each)
        if self._is_covered(reached.message.id):
            return None
        claim = Claim([reached.message], txn)
        self._claims[claim] = None
        if txn is not None:
            self._undecided[claim] = None
        self._covered = reached.message.id
        return claim

    def settle(self, claim: Claim, is_done: bool, part: Sequence[Received] | None = None) -> None:
        if claim not in self._claims:
            return  # of a turn before
        if is_done:
            last = claim.messages[-1].id
            self._acknowledged = last if self._acknowledged is None else max(self._acknowledged, last)
            self._handed_out.drop_through(last)
        elif claim.txn is not None:
            self._begin_turn()  # it cannot commit, and what it had comes again
        if not is_done or claim.txn is None:
            self._drop(claim)
        if not is_done:
            known = [] if self._acknowledged is None else [self._acknowledged]
            self._covered = max((*known, *(each.messages[-1].id for each in self._claims)), default=None)

    def _drop(self, claim: Claim) -> None:
        del self._claims[claim]
        self._undecided.pop(claim, None)

    def _is_covered(self, at: MessageId) -> bool:
        """Whether it is acknowledged, or is about to be."""
        return self._covered is not None and at <= self._covered

    @property
    def _is_lost(self) -> bool:
        """Whether a transaction that has something was aborted."""
        return any(_is_lost(each) for each in self._undecided)


class SharedProgress:
    """Of a segment that several consumers share by keys: what lies between may be others'."""

    def __init__(self, unacked_max: int = UNACKED_MAX) -> None:
        self._unacked: dict[MessageId, Reached] = {}
        """By turns: who acknowledges a few has not to look through all."""
        self._under_way: dict[MessageId, Claim] = {}
        self._unacked_max = unacked_max
        self._handed_out = 0

    @property
    def room(self) -> int:
        return max(0, self._unacked_max - len(self._unacked))

    @property
    def is_settled(self) -> bool:
        return not self._unacked and not self._under_way

    def hand_out(self, messages: Sequence[Message]) -> HandedOut:
        handed_out: list[Message] = []
        before = self._handed_out
        for message in messages:
            at = message.id
            if at not in self._unacked and at not in self._under_way:
                self._handed_out += 1
                handed_out.append(message)
                self._unacked[at] = reached_with(message, self._handed_out)
        return HandedOut(handed_out, range(before + 1, self._handed_out + 1))

    def renew(self) -> None:
        """What the application has it has."""

    def is_void(self, reached: Reached) -> bool:
        # Each message stands for itself: of those that come again none is covered by what was received before.
        return False

    def claim(self, reached: Reached, txn: Transaction | None) -> Claim | None:
        # By when it was received, not by where it is: what others had comes later, and may lie before it.
        until = takewhile(lambda each: each.turn <= reached.turn, self._unacked.values())
        found = [each.message for each in until]
        if not found:
            return None
        claim = Claim(found, txn)
        for each in found:
            del self._unacked[each.id]
            self._under_way[each.id] = claim
        return claim

    def settle(self, claim: Claim, is_done: bool, part: Sequence[Received] | None = None) -> None:
        about = claim.messages if part is None else part
        settled = [each for each in about if self._under_way.get(each.id) is claim]
        for each in settled:
            del self._under_way[each.id]
        if not is_done and claim.txn is None:  # of a transaction, which cannot commit, it comes again
            self._unacked = {**{each.id: Reached(each, 0) for each in settled}, **self._unacked}


def _is_lost(claim: Claim) -> bool:
    return claim.txn is not None and claim.txn.state in _LOST


def _is_committed(claim: Claim) -> bool:
    return claim.txn is not None and claim.txn.state is TransactionState.COMMITTED
