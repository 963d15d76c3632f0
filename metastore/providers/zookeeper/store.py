"""The contract over a ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from functools import partial
from typing import TypeVar

from metastore.engine.keys import key_order
from metastore.interface import (
    ALL,
    DEFAULT_SESSION_TIMEOUT_MS,
    Capabilities,
    Comparison,
    Condition,
    Environment,
    Index,
    InvalidRequest,
    LimitExceeded,
    MetadataStore,
    Operation,
    Put,
    PutResult,
    Range,
    Record,
    Session,
    SessionLost,
    StoreClosed,
    Unavailable,
    Watch,
)
from metastore.interface.checks import (
    check_delete_range,
    check_expected,
    check_index,
    check_key,
    check_put,
    check_range,
    check_session,
    check_text,
    check_transaction,
    shown,
)
from metastore.providers.tokens import TokenForm
from metastore.providers.zookeeper import plans
from metastore.providers.zookeeper.connection import Connection
from metastore.providers.zookeeper.drafting import Drafter
from metastore.providers.zookeeper.head import Sweep
from metastore.providers.zookeeper.layout import Layout, identity_of
from metastore.providers.zookeeper.limits import SCAN_PORTION_RECORDS, ZK_VALUE_BYTES_MAX
from metastore.providers.zookeeper.reader import Reader
from metastore.providers.zookeeper.reaper import Reaper
from metastore.providers.zookeeper.selection import Selection, around, nearest, place_of, select
from metastore.providers.zookeeper.session import ZookeeperSession, open_session
from metastore.providers.zookeeper.settings import Settings
from metastore.providers.zookeeper.tail import Tail
from metastore.providers.zookeeper.watch import ZookeeperWatch, sequence_keys
from metastore.providers.zookeeper.write import Author
from metastore.providers.zookeeper.writer import Writer

T = TypeVar("T")

CAPABILITIES = Capabilities(
    transact=True,
    watches_every_change=True,
    orders_index_scans=True,
    survives_restart=True,
)


class ZookeeperStore(MetadataStore):
    """One client of a store that lies below one path of a ZooKeeper."""

    capabilities = CAPABILITIES

    def __init__(
        self, settings: Settings, key_sorting: str, identity: str, connection: Connection, environment: Environment
    ) -> None:
        self.key_sorting = key_sorting
        self._settings = settings
        self._identity = identity
        self._connection = connection
        self._clock = environment.clock
        self._order = key_order(key_sorting)
        self._layout = layout = Layout(settings.root)
        drafter = Drafter(connection, layout, self._order, environment.clock)
        self._writer = Writer(connection, layout, drafter, settings.patience_s, environment.random, environment.faults)
        self._tail = Tail(connection, layout)
        self._reader = Reader(connection, layout, self._order, self._tail, self._finish_sweep)
        self._reaper = Reaper(connection, layout, self._end_records)
        self._sessions: set[ZookeeperSession] = set()
        self._is_closed = False

    # -- records

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        session: Session | None = None,
        partition_key: str | None = None,
        sequence_deltas: Sequence[int] = (),
        indexes: Sequence[Index] = (),
    ) -> PutResult:
        check_put(key, value, expected, partition_key, sequence_deltas, indexes)
        _check_size(key, value)
        author = self._author(session)
        if not sequence_deltas:
            identity = identity_of(key, partition_key)
            return await self._writer.submit(plans.put(identity, value, expected, indexes, author))
        assert partition_key is not None, "check_put has seen to that"
        return await self._writer.submit(plans.put_next(key, partition_key, value, sequence_deltas, indexes, author))

    async def get(
        self,
        key: str,
        *,
        comparison: Comparison = Comparison.EQUAL,
        index: str | None = None,
        partition_key: str | None = None,
        include_value: bool = True,
    ) -> Record | None:
        self._check_open()
        check_key(key, partition_key)
        if index is not None:
            check_index(index)
        return await self._patiently(self._get(key, comparison, index, partition_key, include_value))

    async def _get(
        self, key: str, comparison: Comparison, index: str | None, partition_key: str | None, include_value: bool
    ) -> Record | None:
        secondary_key = None
        if comparison is Comparison.EQUAL and index is None:
            stored = await self._reader.find(identity_of(key, partition_key))
        else:
            snapshot = await self._reader.snapshot(around(self._order, key, comparison, index, partition_key))
            row = nearest(self._order, await snapshot.rows(), key, comparison)
            if row is None:
                return None
            [stored] = await snapshot.records([row])
            secondary_key = row.secondary_key
        if stored is None:
            return None
        return stored.header.as_record(stored.value if include_value else None, secondary_key)

    async def delete(self, key: str, *, expected: int | None = None, partition_key: str | None = None) -> bool:
        check_key(key, partition_key)
        check_expected(key, expected)
        plan = plans.delete(identity_of(key, partition_key), expected)
        return await self._writer.submit(plan, is_removal=True)

    async def delete_range(self, range: Range, *, partition_key: str | None = None) -> None:
        self._check_range(range, None, partition_key)
        check_delete_range(range)
        await self._writer.submit(plans.delete_range(Sweep(range, partition_key)), is_removal=True)
        await self._finish_sweep()

    async def _finish_sweep(self) -> None:
        """Returns when the range that the head says is gone, if it says so, is gone."""
        await self._writer.submit(plans.nothing)

    def list(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[str]:
        return self._list(self._checked(range, index, partition_key))

    async def _list(self, selection: Selection) -> AsyncIterator[str]:
        snapshot = await self._patiently(self._reader.snapshot(selection))
        for row in await self._patiently(snapshot.rows()):
            yield row.identity.key

    def scan(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[Record]:
        return self._scan(self._checked(range, index, partition_key))

    async def _scan(self, selection: Selection) -> AsyncIterator[Record]:
        snapshot = await self._patiently(self._reader.snapshot(selection))
        rows = await self._patiently(snapshot.rows())
        for first in range(0, len(rows), SCAN_PORTION_RECORDS):
            portion = rows[first : first + SCAN_PORTION_RECORDS]
            for row, stored in zip(portion, await self._patiently(snapshot.records(portion)), strict=True):
                yield stored.as_record(row.secondary_key)

    async def transact(
        self,
        partition_key: str,
        operations: Sequence[Operation],
        *,
        conditions: Sequence[Condition] = (),
        session: Session | None = None,
    ) -> tuple[PutResult | None, ...]:
        check_transaction(partition_key, operations, conditions, session is not None)
        for operation in operations:
            if isinstance(operation, Put):
                _check_size(operation.key, operation.value)
        author = self._author(session)
        plan = plans.transact(partition_key, tuple(operations), tuple(conditions), author)
        return await self._writer.submit(plan)

    # -- what lasts

    async def open_session(self, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS, *, identity: str = "") -> Session:
        check_session(timeout_ms, identity)
        self._check_open()
        settings = self._settings
        session = await open_session(
            settings.servers, self._layout, timeout_ms, identity, settings.patience_s, self._clock, self._end_session
        )
        self._sessions = {session, *[each for each in self._sessions if not each.is_over]}
        if self._is_closed:
            await session.drop()
        self._check_open()
        return session

    def _author(self, session: Session | None) -> Author | None:
        """Whose a record is; SessionLost if its owner has to take the session for ended."""
        if session is None:
            return None
        if isinstance(session, ZookeeperSession) and session.is_lost:
            raise SessionLost(f"session {session.author.session_id} has ended, and its records with it: open another")
        if session not in self._sessions:
            raise InvalidRequest("the session is another store's: open one with this store")
        assert isinstance(session, ZookeeperSession)
        return session.author

    async def _end_session(self, session_id: int) -> None:
        """Ends a session that may still be alive, and removes its records."""
        await self._writer.submit(plans.end_session(session_id, is_forced=True), is_removal=True)
        await self._end_records(session_id)

    async def _end_records(self, session_id: int) -> None:
        """Removes the records of a session, if it has ended."""
        while await self._writer.submit(plans.end_session(session_id, is_forced=False), is_removal=True):
            continue

    def watch(
        self,
        range: Range = ALL,
        *,
        index: str | None = None,
        partition_key: str | None = None,
        resume: str | None = None,
        snapshot: bool = True,
        previous_values: bool = False,
    ) -> Watch:
        selection = self._checked(range, index, partition_key)
        form = TokenForm(self._identity, range, index, partition_key, 1)
        position = None if resume is None else form.read(resume)[0]
        return ZookeeperWatch(self._reader, selection, form, position, snapshot, previous_values)

    def watch_sequence(self, prefix: str, *, partition_key: str) -> AsyncIterator[str]:
        check_key(prefix, partition_key)
        self._check_open()
        return sequence_keys(self._reader, prefix, partition_key)

    # -- the end

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        await self._reaper.close()
        await self._tail.close()
        await self._writer.close()
        await asyncio.gather(*[session.drop() for session in self._sessions])
        await self._connection.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("the store was closed: open another one")

    def _checked(self, range: Range, index: str | None, partition_key: str | None) -> Selection:
        self._check_open()
        self._check_range(range, index, partition_key)
        return select(self._order, range, index, partition_key)

    def _check_range(self, range: Range, index: str | None, partition_key: str | None) -> None:
        if index is not None:
            check_index(index)
        if partition_key is not None:
            check_text("partition key", partition_key)
        check_range(range, partial(place_of, self._order))

    async def _patiently(self, reading: Awaitable[T]) -> T:
        """A read, for as long as a caller is made to wait."""
        try:
            async with asyncio.timeout(self._settings.patience_s):
                return await reading
        except TimeoutError:
            raise Unavailable(f"ZooKeeper did not answer for {self._settings.patience_s:g} s") from None


def _check_size(key: str, value: bytes) -> None:
    if len(value) > ZK_VALUE_BYTES_MAX:
        raise LimitExceeded(
            f"the value of {shown(key)} has {len(value)} bytes: a store on ZooKeeper takes {ZK_VALUE_BYTES_MAX} "
            "(ZK_VALUE_BYTES_MAX)"
        )
