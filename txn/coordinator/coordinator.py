"""Begin, commit, abort: each a few calls of the store, and the truth about what came of them."""

from __future__ import annotations

from dataclasses import dataclass

from metastore.coordination import Pace
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import ABSENT, MetadataStore, OutcomeUnknown, Retriable, UnexpectedVersion
from txn.coordinator import judgement
from txn.coordinator.numbering import Numbering
from txn.coordinator.registry import Found, OpenTransactions
from txn.model import paths
from txn.model.errors import CoordinatorUnavailable, InvalidTimeout, TooManyOpenTransactions, TxnNotFound
from txn.model.header import Cause, Header, TxnState
from txn.model.ids import TxnId

DECISION_ATTEMPTS_MAX = 10
"""How often a decision is read and written anew. A header changes once, so more than two are a store in trouble."""


@dataclass(frozen=True, slots=True)
class CoordinatorLimits:
    """What a coordinator allows."""

    timeout_ms_min: int = 1
    timeout_ms_max: int = 3_600_000
    open_max: int = 100_000
    """Open transactions of all coordinators together. Coordinators that begin at the same instant may exceed it by
    what each of them has under way."""
    open_per_owner_max: int = 10_000


class Coordinator:
    """A coordinator; its number is the id space it draws from. Any coordinator may end any transaction."""

    def __init__(
        self,
        store: MetadataStore,
        number: int,
        open_transactions: OpenTransactions,
        *,
        limits: CoordinatorLimits | None = None,
        pace: Pace | None = None,
        faults: Faults = NO_FAULTS,
    ) -> None:
        self._store = store
        self._pace = pace or Pace()
        self._faults = faults
        self._limits = limits or CoordinatorLimits()
        self._open = open_transactions
        self._numbering = Numbering(store, number, self._pace)

    async def begin(self, timeout_ms: int, *, owner: str | None = None) -> TxnId:
        """A new transaction, which has to be committed within so many milliseconds."""
        limits = self._limits
        if not limits.timeout_ms_min <= timeout_ms <= limits.timeout_ms_max:
            raise InvalidTimeout(
                f"a transaction timeout of {timeout_ms} ms: {limits.timeout_ms_min} to {limits.timeout_ms_max} ms "
                "are allowed (timeout_ms_max)"
            )
        self._check_room(owner)
        now_ms = self._pace.clock.wall_ms()
        header = Header(TxnState.OPEN, now_ms, now_ms + timeout_ms, owner)
        try:
            txn_id = await self._numbering.next_id()
            self._faults.reach("txn.begin.before")
            version_id = await self._create(txn_id, header)
            self._faults.reach("txn.begin.after")
        except Retriable as error:
            raise CoordinatorUnavailable(f"no transaction was begun: {error}") from error
        self._open.note_begun(txn_id, Found(header, version_id))
        return txn_id

    def _check_room(self, owner: str | None) -> None:
        if self._open.count >= self._limits.open_max:
            raise TooManyOpenTransactions(
                f"{self._open.count} transactions are open: at most {self._limits.open_max} (open_max); "
                "try again when others have ended"
            )
        if owner is not None and self._open.count_of(owner) >= self._limits.open_per_owner_max:
            raise TooManyOpenTransactions(
                f"{owner!r} has {self._open.count_of(owner)} open transactions: at most "
                f"{self._limits.open_per_owner_max} (open_per_owner_max); end some of them"
            )

    async def _create(self, txn_id: TxnId, header: Header) -> int:
        """Puts a new header; its version."""
        key, partition = paths.header_key(txn_id), paths.partition(txn_id)
        try:
            result = await self._store.put(
                key, header.encode(), expected=ABSENT, partition_key=partition, indexes=header.indexes()
            )
            return result.version.version_id
        except OutcomeUnknown:
            # Nobody else has this id: what is there now is one's own put. If nothing is, it may still come, and
            # then ends at its deadline without ever having been used.
            record = await self._store.get(key, partition_key=partition, include_value=False)
            if record is None:
                raise CoordinatorUnavailable(
                    f"whether transaction {txn_id} was begun is not known: begin another"
                ) from None
            return record.version.version_id

    async def commit(self, txn_id: TxnId, *, principal: str | None = None) -> Header:
        """Commits. Returns when that is decided, and also if it was before; else the error is the true outcome."""
        return await self._end(txn_id, TxnState.COMMITTED, Cause.CLIENT, principal)

    async def abort(self, txn_id: TxnId, *, principal: str | None = None, cause: Cause = Cause.CLIENT) -> Header:
        """Aborts. Returns when that is decided, and also if it was before; TxnAlreadyCommitted if it is too late.

        An operator may abort what belongs to others.
        """
        return await self._end(txn_id, TxnState.ABORTED, cause, principal)

    async def expire(self, txn_id: TxnId) -> Header | None:
        """Aborts a transaction whose time is over; the header then, or None if it still has time or is gone."""
        found = await self._find(txn_id)
        if found is None or (found.header.is_open and not found.header.is_past_deadline(self._pace.clock.wall_ms())):
            return None
        return await self._decide(txn_id, TxnState.ABORTED, Cause.DEADLINE, found)

    async def describe(self, txn_id: TxnId) -> Header:
        """The header as it is now."""
        try:
            return (await self._require(txn_id)).header
        except Retriable as error:
            raise CoordinatorUnavailable(f"how transaction {txn_id} is cannot be read: {error}") from error

    async def _end(self, txn_id: TxnId, wanted: TxnState, cause: Cause, principal: str | None) -> Header:
        try:
            # An open header is only ever replaced by the decision: the version says whether it still is the same.
            found = self._open.get(txn_id) or await self._require(txn_id)
            if cause is not Cause.OPERATOR:
                judgement.check_owner(txn_id, found.header, principal)
            header = await self._decide(txn_id, wanted, cause, found)
        except Retriable as error:
            raise CoordinatorUnavailable(f"whether transaction {txn_id} has ended is not known: {error}") from error
        judgement.check_outcome(txn_id, header, wanted)
        return header

    async def _decide(self, txn_id: TxnId, wanted: TxnState, cause: Cause, found: Found) -> Header:
        """Decides the transaction, or reads how it was decided."""
        key, partition = paths.header_key(txn_id), paths.partition(txn_id)
        for _ in range(DECISION_ATTEMPTS_MAX):
            after = judgement.successor(txn_id, found.header, wanted, cause, self._pace.clock.wall_ms())
            if after is None:
                return found.header
            before_point, after_point = _points(after)
            self._faults.reach(before_point)
            try:
                await self._store.put(
                    key,
                    after.encode(),
                    expected=found.version_id,
                    partition_key=partition,
                    indexes=after.indexes(),
                )
            except (UnexpectedVersion, OutcomeUnknown):
                found = await self._require(txn_id)
            else:
                self._faults.reach(after_point)
                self._open.note_ended(txn_id)
                return after
        raise CoordinatorUnavailable(
            f"transaction {txn_id} could not be decided in {DECISION_ATTEMPTS_MAX} attempts (DECISION_ATTEMPTS_MAX): "
            "try again"
        )

    async def _require(self, txn_id: TxnId) -> Found:
        found = await self._find(txn_id)
        if found is None:
            raise TxnNotFound(f"there is no transaction {txn_id}: it was never begun, or ended long ago")
        return found

    async def _find(self, txn_id: TxnId) -> Found | None:
        record = await self._store.get(paths.header_key(txn_id), partition_key=paths.partition(txn_id))
        if record is None:
            return None
        assert record.value is not None, "a get brings the value"
        return Found(Header.decode(record.value), record.version.version_id)


def _points(decided: Header) -> tuple[str, str]:
    """The named points before and behind the writing of a decision."""
    if decided.cause is Cause.DEADLINE:
        return "txn.timeout.before", "txn.timeout.after"
    if decided.state is TxnState.COMMITTED:
        return "txn.commit.before", "txn.commit.after"
    return "txn.abort.before", "txn.abort.after"
