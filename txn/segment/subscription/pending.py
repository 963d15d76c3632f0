"""Pending acknowledgements: what open transactions have acknowledged, and hold until they end. Decisions, no I/O.

The rule. A message is acknowledged by one. An acknowledgement in a transaction takes hold of its messages; it is in
conflict with whoever has one of them already, acknowledged for good or held by another transaction. It makes no
difference in which order they come, nor of which form they are: an entry, messages of a batch, everything up to
somewhere. A cumulative one is about every message up to its position that is not acknowledged yet, so of several
transactions one at a time can hold a cumulative one; if there is nothing left for it to be about, it comes too late.

What a transaction has acknowledged already it may acknowledge again: that is what a client does whose answer was lost.
Nothing is changed by it, and nothing more is written.

Whoever was told of a decision may act on it before the watch tells it to the segment's owner. So before somebody is
refused for a transaction's sake, that one's header is looked at: what is decided counts first.

Acknowledgements outside of transactions are idempotent too: of what is acknowledged already they change nothing. But
what a transaction holds they do not take: TxnConflict, because the transaction may yet commit, and what it did would
then have been done for a message that somebody else has acknowledged as well.

A cumulative acknowledgement promises this: *it takes the message it names, and of what lies before that only what its
consumer was given, or what was acknowledged when that was given.* A consumer may be given messages behind some that a
transaction holds. When that is aborted, they come after all; and an acknowledgement of what lies behind them, given
before and arriving after, would take them along, and nobody would ever have them. So an abort begins a new *era* of the
cursor, and so does a seek; with it everything that is not acknowledged is delivered again, and bears the new era. A
cumulative acknowledgement says the era of what it names. One of another era takes nothing that is not acknowledged
already: AckTooLate. The era is in the cursor's record before the transaction's records go, so that it holds across
streams, consumers and owners. What a transaction holds, and has not recorded yet, nobody is given anything behind: it
may be free again without an abort.

Where a segment is shared by keys, entries are acknowledged one by one, and no era could undo that: what lies behind
something that is held could be done with for good before that comes again. So there it is withheld from all but who has
acknowledged what is held: see `withheld`. How long that may last is the transaction's deadline.

Room in the cursor is reserved along with the messages, so that no commit ever fails for want of it. What records say
after a restart is taken over as it is, without a judgement: it was judged when it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txn.model.errors import TooManyOperations, TxnConflict
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import CURSOR_BYTES_MAX, Ack, BatchBits, CursorState
from txn.segment.errors import CursorTooLarge, InvalidAck
from txn.segment.log import LedgerLengths
from txn.segment.subscription.claims import (
    NOTHING,
    WHOLE,
    Claims,
    check_sizes,
    joined,
    overlap,
    reached,
    share_of,
)
from txn.segment.subscription.errors import AckTooLate

CLAIMS_MAX = 100_000
"""Acknowledgements that one transaction holds in one subscription."""


class PendingAcks:
    """Who holds what."""

    def __init__(self) -> None:
        self._claims: dict[TxnId, Claims] = {}
        self._holders: dict[Position, tuple[TxnId, ...]] = {}
        """Of entries that are held one by one. More than one: parts of a batch, or what was found after a restart."""
        self._recorded: dict[TxnId, Claims] = {}
        self._cumulative: set[TxnId] = set()
        self._alone: dict[TxnId, tuple[TxnId, ...]] = {}
        """One and the same tuple for all that a transaction holds alone."""
        self.weight = 0
        """What a cursor needs, at most, if all of them commit."""

    def __bool__(self) -> bool:
        return bool(self._claims)

    def counts(self) -> dict[TxnId, int]:
        """How many acknowledgements each transaction holds."""
        return {txn_id: len(claims) for txn_id, claims in self._claims.items()}

    def positions(self) -> Iterable[Position]:
        """The entries that are held one by one."""
        return self._holders.keys()

    def holds_up_to(self, cursor: CursorState) -> bool:
        """Whether a transaction holds everything up to somewhere that is not acknowledged yet."""
        if not self._cumulative:
            return False
        reaches = (self._claims[txn_id].reach for txn_id in self._cumulative)
        return any(reach is not None and not covers(cursor, reach) for reach in reaches)

    def share_alone(self, position: Position) -> BatchBits:
        """What of an entry is held one by one."""
        found = NOTHING
        for txn_id in self._holders.get(position, ()):
            found = joined(position, found, self._claims[txn_id].shares[position])
        return found

    def share(self, position: Position) -> BatchBits:
        """What of an entry is held, by whomever."""
        found = self.share_alone(position)
        for txn_id in self._cumulative:
            found = joined(position, found, reached(self._claims[txn_id].reach, position))
        return found

    def is_unsure(self, position: Position) -> bool:
        """Whether something of an entry is held that is not recorded, as far as is known: it may be free any time."""
        holders = (*self._holders.get(position, ()), *self._cumulative)
        return any(self._claims[each].share(position) != self._recorded[each].share(position) for each in holders)

    # -- judging

    def judge(
        self, txn_id: TxnId, acks: Sequence[Ack], cursor: CursorState, weight: int, era: int | None = None
    ) -> list[Ack]:
        """Those of the acknowledgements that are new to the transaction. TxnConflict if one of them is another's.

        `weight` is what the cursor takes as it stands, by the records that there are of it. AckTooLate if one is
        cumulative, and what it names was given in another `era`.
        """
        own = self._claims.get(txn_id) or Claims()
        new = [ack for ack in acks if not own.covers(ack)]
        for ack in new:
            _check_unacknowledged(txn_id, ack, cursor)
            check_era(ack, cursor, era)
            self._check_free(txn_id, ack, cursor)
        if len(own) + len(new) > CLAIMS_MAX:
            raise TooManyOperations(
                f"{txn_id} would hold {len(own) + len(new)} acknowledgements of one subscription: at most "
                f"{CLAIMS_MAX} (CLAIMS_MAX)"
            )
        self._check_room(own, new, weight)
        return new

    def judge_plain(self, acks: Iterable[Ack], cursor: CursorState, era: int | None = None) -> None:
        """TxnConflict if acknowledgements outside of transactions would take what a transaction holds.

        AckTooLate as in `judge`.
        """
        for ack in acks:
            if not covers(cursor, ack):
                check_era(ack, cursor, era)
                self._check_free(None, ack, cursor)

    def _check_free(self, txn_id: TxnId | None, ack: Ack, cursor: CursorState) -> None:
        for other in self._cumulative:
            reach = self._claims[other].reach
            assert reach is not None
            meets = is_meeting(ack, reach) if not ack.is_cumulative else not covers(cursor, _nearer(ack, reach))
            if other != txn_id and meets:
                raise _conflict(ack, f"{other} holds everything up to {reach.position}", other)
        if ack.is_cumulative:
            self._check_nothing_within(txn_id, ack, cursor.mark)
            return
        for other in self._holders.get(ack.position, ()):
            if other != txn_id and overlap(ack.position, share_of(ack), self._claims[other].shares[ack.position]):
                raise _conflict(ack, f"{other} holds it", other)

    def _check_nothing_within(self, txn_id: TxnId | None, ack: Ack, mark: Position) -> None:
        """That no other transaction holds anything up to there which is not acknowledged yet."""
        for position, holders in self._holders.items():
            if not mark <= position <= ack.position:
                continue
            for other in holders:
                share = self._claims[other].shares[position]
                if other != txn_id and overlap(position, reached(ack, position), share):
                    raise _conflict(ack, f"{other} holds {position}", other)

    def _check_room(self, own: Claims, new: Sequence[Ack], weight: int) -> None:
        if not new:
            return
        more = Claims()
        more.shares = {ack.position: own.shares[ack.position] for ack in new if ack.position in own.shares}
        for ack in new:
            more.add(ack)
        total = weight + self.weight + more.weight
        if total > CURSOR_BYTES_MAX:
            raise CursorTooLarge(
                f"a cursor with all acknowledgements that are pending would take up to {total} bytes: at most "
                f"{CURSOR_BYTES_MAX} (CURSOR_BYTES_MAX). Acknowledge entries in a row, or end transactions first"
            )

    # -- holding

    def hold(self, txn_id: TxnId, acks: Iterable[Ack], recorded: Claims) -> None:
        """A transaction takes hold of messages. What of all that it holds is recorded will always be in `recorded`."""
        self._recorded[txn_id] = recorded
        claims = self._claims.setdefault(txn_id, Claims())
        alone = self._alone.setdefault(txn_id, (txn_id,))
        self.weight -= claims.weight
        for ack in acks:
            claims.add(ack)
            if ack.is_cumulative:
                self._cumulative.add(txn_id)
                continue
            holders = self._holders.get(ack.position)
            if holders is None:
                self._holders[ack.position] = alone
            elif txn_id not in holders:
                self._holders[ack.position] = (*holders, txn_id)
        self.weight += claims.weight

    def let_go(self, txn_id: TxnId) -> Claims:
        """A transaction lets go of all that it holds."""
        claims = self._claims.pop(txn_id, None) or Claims()
        self.weight -= claims.weight
        self._alone.pop(txn_id, None)
        self._recorded.pop(txn_id, None)
        self._cumulative.discard(txn_id)
        for position in claims.shares:
            left = tuple(other for other in self._holders[position] if other != txn_id)
            if left:
                self._holders[position] = left if len(left) > 1 else self._alone[left[0]]
            else:
                del self._holders[position]
        return claims


def covers(cursor: CursorState, ack: Ack) -> bool:
    """Whether everything that an acknowledgement is about is acknowledged."""
    position, share = ack.position, share_of(ack)
    if ack.is_cumulative and cursor.mark < position:
        return False
    if cursor.is_acknowledged(position):
        return True
    known = cursor.batches.get(position, NOTHING)
    return share != WHOLE and joined(position, known, share) == known


def is_meeting(ack: Ack, reach: Ack) -> bool:
    """Whether an acknowledgement of an entry and a cumulative one have messages in common."""
    return overlap(ack.position, share_of(ack), reached(reach, ack.position))


def _nearer(one: Ack, other: Ack) -> Ack:
    """Of two cumulative acknowledgements the one that reaches less far."""
    if one.position == other.position:
        return one if share_of(one).bits & share_of(other).bits == share_of(one).bits else other
    return min(one, other, key=lambda ack: ack.position)


def _check_unacknowledged(txn_id: TxnId, ack: Ack, cursor: CursorState) -> None:
    known = cursor.batches.get(ack.position, NOTHING)
    if known.bits and share_of(ack) != WHOLE:
        check_sizes(ack.position, share_of(ack), known)
    if ack.is_cumulative:
        if covers(cursor, ack):
            raise _conflict(ack, "everything up to there is acknowledged already")
    elif cursor.is_acknowledged(ack.position) or overlap(ack.position, share_of(ack), known):
        raise _conflict(ack, "it is acknowledged already")


def covers_all(cursor: CursorState, claims: Claims) -> bool:
    """Whether everything that is claimed is acknowledged."""
    return all(covers(cursor, ack) for ack in claims.acks())


def check_era(ack: Ack, cursor: CursorState, era: int | None) -> None:
    """AckTooLate if a cumulative acknowledgement is of what was given in another era; None: that is not known."""
    if ack.is_cumulative and era is not None and era != cursor.era:
        raise AckTooLate(
            f"everything up to {ack.position} was given in era {era}, and this is era {cursor.era}: since then a "
            "transaction was aborted, or the subscription put elsewhere, and what is not acknowledged comes again. "
            "Receive and process it once more"
        )


def _conflict(ack: Ack, why: str, holder: TxnId | None = None) -> TxnConflict:
    what = f"everything up to {ack.position}" if ack.is_cumulative else f"{ack.position}"
    messages = f", messages {ack.batch[:10]}," if ack.batch else ""
    text = f"{what}{messages} cannot be acknowledged: {why}. Abort the transaction, and begin another"
    return TxnConflict(text, "" if holder is None else str(holder))


def check_fits(acks: Iterable[Ack], lengths: LedgerLengths, bound: Position) -> None:
    """InvalidAck for what is no entry, or none that may be read yet. Entries that are trimmed away have been some."""
    for ack in acks:
        if ack.position >= lengths.oldest and not lengths.holds(ack.position):
            raise InvalidAck(f"an acknowledgement of {ack.position}, where no entry is")
        if ack.position >= bound:
            raise InvalidAck(f"an acknowledgement of {ack.position}: what may be read ends at {bound}")
