"""One ephemeral record of ours: put so that a lost answer does no harm, changed, and taken away again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from metastore.coordination.keeper import SessionKeeper
from metastore.coordination.pace import Backoff
from metastore.coordination.stamps import HolderStamp, is_held_by
from metastore.interface import Index, OutcomeUnknown, Record, Retriable, Session, SessionLost, UnexpectedVersion
from metastore.interface.checks import shown

ATTEMPTS_MAX = 5
"""How often something is read or removed before the session is given up instead."""

Find = Callable[[], Awaitable[Record | None]]
"""Looks for the record where it must be, if it is anywhere."""


class OwnRecord:
    """A record that goes with a session of ours, and is known by its mark."""

    def __init__(
        self,
        keeper: SessionKeeper,
        session: Session,
        key: str,
        partition_key: str,
        mark: str,
        version_id: int,
        indexes: Sequence[Index] = (),
    ) -> None:
        self.session = session
        self.key = key
        self.mark = mark
        self.version_id = version_id
        self._keeper = keeper
        self._partition_key = partition_key
        self._indexes = indexes

    async def look(self) -> bool:
        """Whether the record is still there, and still ours; if so, from now on it is known at its present version."""
        return self.recognise(await self._keeper.store.get(self.key, partition_key=self._partition_key))

    def recognise(self, record: Record | None) -> bool:
        """Whether this is our record, and then that is the version we know of."""
        if record is None or not is_held_by(record, self.mark):
            return False
        self._learn(record.version.version_id)
        return True

    def _learn(self, version_id: int) -> None:
        # Versions of a record only grow: what was read or written first may be heard of last.
        self.version_id = max(self.version_id, version_id)

    async def change(self, value: bytes) -> None:
        """Puts another value, stamp included. UnexpectedVersion if the record is not at the version known."""
        result = await self._keeper.store.put(
            self.key,
            value,
            expected=self.version_id,
            session=self.session,
            partition_key=self._partition_key,
            indexes=self._indexes,
        )
        self._learn(result.version.version_id)

    async def remove(self) -> None:
        """Takes the record away, if it is ours. When this returns it is gone, or goes with its session very soon.

        It raises nothing that another attempt could mend: where all ATTEMPTS_MAX fail the session is given up.
        """
        backoff = Backoff(self._keeper.pace)
        for _ in range(ATTEMPTS_MAX):
            if self.session.is_lost:
                return
            try:
                await self._keeper.store.delete(self.key, expected=self.version_id, partition_key=self._partition_key)
                return
            except UnexpectedVersion:
                # Gone, or another's: unless a change of ours took effect whose answer was lost.
                if not await self._look_in_passing():
                    return
            except (Retriable, OutcomeUnknown):
                await backoff.pause()
        self._keeper.give_up(self.session, f"{shown(self.key)} could not be removed in {ATTEMPTS_MAX} attempts")

    async def _look_in_passing(self) -> bool:
        """Like `look`, where a failure to tell is followed by another attempt anyway."""
        try:
            return await self.look()
        except Retriable:
            return True


async def put_own(
    keeper: SessionKeeper,
    session: Session,
    key: str,
    value: bytes,
    *,
    partition_key: str,
    mark: str,
    expected: int | None = None,
    sequence_deltas: Sequence[int] = (),
    indexes: Sequence[Index] = (),
    find: Find | None = None,
) -> OwnRecord | None:
    """Puts a record of ours, stamped with a mark that is new; None if the record is not at the `expected` version.

    Whether a put took effect whose answer was lost is looked up, by the mark. So is one that found another version than
    expected: a store may repeat a put by itself, and fail on the record that it has just put. Where the look finds
    nothing, or cannot be had, the put might still arrive: the session is given up, and SessionLost raised.
    """

    async def get() -> Record | None:
        return await keeper.store.get(key, partition_key=partition_key)

    is_outcome_known = True
    try:
        result = await keeper.store.put(
            key,
            HolderStamp(mark).on(value),
            expected=expected,
            session=session,
            partition_key=partition_key,
            sequence_deltas=sequence_deltas,
            indexes=indexes,
        )
        return OwnRecord(keeper, session, result.key, partition_key, mark, result.version.version_id, indexes)
    except SessionLost:
        keeper.give_up(session, f"it has ended, says the store at the put of {shown(key)}")
        raise
    except UnexpectedVersion:
        pass  # a record is there; it may be this one, of an attempt whose answer was lost
    except OutcomeUnknown:
        is_outcome_known = False
    record = await _find(keeper, find or get)
    if isinstance(record, Record) and is_held_by(record, mark):
        return OwnRecord(keeper, session, record.key, partition_key, mark, record.version.version_id, indexes)
    if is_outcome_known and not isinstance(record, Retriable):
        return None
    keeper.give_up(session, f"it is not known whether {shown(key)} was put, or still will be")
    raise SessionLost(f"the answer to the put of {shown(key)} was lost: its session was given up, to be sure")


async def _find(keeper: SessionKeeper, find: Find) -> Record | Retriable | None:
    """What there is, or why that is not to be learned in ATTEMPTS_MAX attempts."""
    backoff = Backoff(keeper.pace)
    failure: Retriable | None = None
    for _ in range(ATTEMPTS_MAX):
        try:
            return await find()
        except Retriable as error:
            failure = error
            await backoff.pause()
    return failure
