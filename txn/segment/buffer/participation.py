"""A transaction in the hands of a segment's owner: from its first message here, until its outcome is carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from metastore.interface import ABSENT
from txn.model.aborted import AbortedRange
from txn.model.errors import TooManyOpenTransactions, TxnConflict
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.outcomes import Followed, Outcomes
from txn.segment.bell import Bell
from txn.segment.operations import StoredOperation


class Participation:
    """What the owner knows of a transaction's part in the segment."""

    def __init__(self, followed: Followed, *, is_recovered: bool) -> None:
        self.txn_id = followed.txn_id
        self.followed = followed
        self.is_recovered = is_recovered
        """It may be that an earlier owner has begun to carry the outcome out."""
        self.is_straggler = False
        """It was let go of, or never was here, when a record of it turned up."""
        self.outcome: TxnState | None = None
        """The decision, once this owner acts by it."""
        self.bears_witness = True
        """Whether its outcome says what its entries are. Not so where there is no header, and none of its entries are
        known to be unsettled: then the segment's own record tells, for its outcome was carried out before."""
        self.entries = 0
        """Messages that were accepted in it."""
        self.span: AbortedRange | None = None
        """Where its entries in the log are; None if there are none."""
        self.keys: set[str] = set()
        """Its operation records, as far as they are known and not removed."""
        self.operations = 0
        """How many there were."""
        self.first_ms = 0
        """When the first and the last of them were written."""
        self.last_ms = 0
        self.is_in_doubt = False
        """Whether there may be records whose keys are not known."""
        self._rounds = 0
        self._bell = Bell()

    @property
    def is_open(self) -> bool:
        """Whether it is known to be open: then it may be written in."""
        now = self.followed.now
        return self.outcome is None and now is not None and now.is_open

    @property
    def is_known(self) -> bool:
        """Whether its header was looked at."""
        return self.followed.now is not None

    @property
    def header_version(self) -> int:
        """The version at which the header was seen last."""
        return self.followed.now.version_id if self.followed.now is not None else ABSENT

    @property
    def is_aborted(self) -> bool | None:
        """Whether its entries are to be skipped; None if that is not to be told from here."""
        if self.outcome is None or not self.bears_witness:
            return None
        return self.outcome is TxnState.ABORTED

    def conflict(self) -> TxnConflict:
        """What is told to those who come too late."""
        now = self.followed.now
        how = "has no header" if now is None or now.header is None else f"is {now.state.value}"
        return TxnConflict(f"transaction {self.txn_id} {how}: nothing more can be written in it, begin another one")

    def begin_round(self) -> None:
        """Something is written in it."""
        self.is_straggler = False
        self._rounds += 1

    def end_round(self) -> None:
        """What was written is confirmed, or will not be."""
        self._rounds -= 1
        if not self._rounds:
            self._bell.ring()

    async def quiet(self) -> None:
        """Returns when nothing is being written in it."""
        await self._bell.until(lambda: not self._rounds)

    def note_entries(self, first: Position, last: Position) -> None:
        """Entries of it are in the log."""
        more = AbortedRange(first, last)
        self.span = more if self.span is None else self.span.joined(more)

    def note_records(self, keys: Iterable[str], written_ms: int) -> None:
        """Records of it are in the store."""
        before = len(self.keys)
        self.keys.update(keys)
        self.operations += len(self.keys) - before
        self.first_ms = min(self.first_ms or written_ms, written_ms)
        self.last_ms = max(self.last_ms, written_ms)

    def note_found(self, found: StoredOperation) -> None:
        """A record of it was found in the store."""
        self.note_records([found.key], found.operation.written_ms)


class Participations:
    """All transactions in the owner's hands."""

    def __init__(self, outcomes: Outcomes, open_max: int, take_up: Callable[[Participation], None]) -> None:
        self._outcomes = outcomes
        self._open_max = open_max
        self._take_up = take_up
        """Sees the transaction through to its end."""
        self._by_id: dict[TxnId, Participation] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Participation]:
        return iter(self._by_id.values())

    def get(self, txn_id: TxnId) -> Participation | None:
        """The transaction, if it is in the owner's hands."""
        return self._by_id.get(txn_id)

    def is_aborted(self, txn_id: TxnId) -> bool | None:
        """Whether a transaction's entries are to be skipped; None if that is not to be told from here."""
        participation = self._by_id.get(txn_id)
        return None if participation is None else participation.is_aborted

    def join(self, txn_id: TxnId) -> Participation:
        """The transaction, taken into the owner's hands if need be. TooManyOpenTransactions at a limit."""
        participation = self._by_id.get(txn_id)
        if participation is None:
            if len(self._by_id) >= self._open_max:
                raise TooManyOpenTransactions(
                    f"{len(self._by_id)} transactions take part in this segment: at most {self._open_max} (open_max); "
                    "try again when others have ended"
                )
            participation = self.adopt(self._outcomes.follow(txn_id), is_recovered=False)
        return participation

    def adopt_straggler(self, txn_id: TxnId) -> Participation:
        """Takes a transaction into the owner's hands of which a record has turned up: a put that was never answered.

        Such a put bears no witness: nothing was written on the strength of it. If the header has gone, all was done.
        """
        participation = self.adopt(self._outcomes.follow(txn_id), is_recovered=True)
        participation.is_straggler = participation.is_in_doubt = True
        return participation

    def adopt(self, followed: Followed, *, is_recovered: bool) -> Participation:
        """Takes a transaction that is followed into the owner's hands."""
        assert followed.txn_id not in self._by_id
        participation = self._by_id[followed.txn_id] = Participation(followed, is_recovered=is_recovered)
        self._take_up(participation)
        return participation

    def let_go(self, participation: Participation) -> None:
        """All is done."""
        del self._by_id[participation.txn_id]
        participation.followed.release()

    def let_all_go(self) -> None:
        """The owner ends; what is not done is left to the next one."""
        for participation in list(self):
            self.let_go(participation)
