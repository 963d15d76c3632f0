"""The contract over the engine in this process."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from metastore.engine.errors import ConditionsFailed, ShardStopped
from metastore.engine.keys import key_order
from metastore.engine.operations import Get, PutOptions, Status, WriteBatch
from metastore.engine.routing import place_of
from metastore.interface import (
    ALL,
    DEFAULT_SESSION_TIMEOUT_MS,
    Capabilities,
    Comparison,
    Condition,
    Index,
    InvalidRequest,
    MetadataStore,
    Operation,
    PutResult,
    Range,
    Record,
    Session,
    SessionLost,
    StoreClosed,
    UnexpectedVersion,
    Watch,
    checks,
)
from metastore.providers.local import reading
from metastore.providers.local.data import OpenDirectory
from metastore.providers.local.failures import STORE_ERRORS, translated
from metastore.providers.local.housekeeping import Housekeeper
from metastore.providers.local.lasting import Lasting
from metastore.providers.local.reading import Reader, Source, keys_of, merged, place_of_entry
from metastore.providers.local.records import COMPARISONS, put_result, raw_indexes, raw_range, record_of
from metastore.providers.local.sequences import SequenceWatch
from metastore.providers.local.sessions import LocalSession
from metastore.providers.local.shards import OpenShard
from metastore.providers.local.threads import Driver, LoopInbox, ReaderPool
from metastore.providers.local.transactions import TransactionForm
from metastore.providers.local.watching import LocalWatch
from metastore.providers.merging import Place, StoreOrder
from metastore.providers.tokens import TokenForm
from metastore.watch.spec import NOW, WatchSpec

DRIVERS_MAX = 8
"""Threads that drive rounds; with more shards than this some share one."""

T = TypeVar("T")
U = TypeVar("U")


class LocalStore(MetadataStore):
    """The shards of an open directory, for the tasks of the event loop that runs when it is made."""

    capabilities = Capabilities(
        transact=True, watches_every_change=True, orders_index_scans=True, survives_restart=True
    )

    def __init__(self, directory: OpenDirectory) -> None:
        self.key_sorting = directory.namespace.key_sorting
        self._directory = directory
        self._clock = directory.clock
        self._engine_order = key_order(self.key_sorting)
        self._order = StoreOrder(self.key_sorting)
        self.inbox = LoopInbox(asyncio.get_running_loop())
        """What the threads have for the loop."""
        self._pool = ReaderPool(self.inbox.loop)
        count = min(len(directory.shards), DRIVERS_MAX)
        self._drivers = [Driver(f"tidemark-driver-{place}") for place in range(count)]
        self.shards = tuple(
            OpenShard(shard_id, shard, self.inbox, self._drivers[place % count], self._pool)
            for place, (shard_id, shard) in enumerate(directory.shards)
        )
        """The shards, in the order of their parts of the hash."""
        self.lasting = Lasting(self.inbox)
        """What is open and goes on."""
        self._is_closed = False
        self._closing: asyncio.Future[None] | None = None
        self._housekeeper = Housekeeper(self.shards, self.lasting, directory.retention_ms, self._clock)
        self._housekeeper.start()

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
        checks.check_put(key, value, expected, partition_key, sequence_deltas, indexes)
        shard = self._shard_of(key if partition_key is None else partition_key)
        owner = self._own(session)
        options = None  # as most puts
        if indexes or not (expected is None and owner is None and partition_key is None):
            options = PutOptions(
                expected_version_id=expected,
                session_id=None if owner is None else await self._told(owner.id_on(shard)),
                client_identity=None if owner is None else owner.identity.encode(),
                partition_key=None if partition_key is None else partition_key.encode(),
                sequence_key_deltas=tuple(sequence_deltas),
                secondary_indexes=raw_indexes(indexes),
            )
        result = await self._told(shard.write(WriteBatch(puts=[(key.encode(), value, options)])))
        (stored,) = result.puts
        if stored[0] == Status.UNEXPECTED_VERSION_ID:
            raise _unexpected("put", key, expected)
        if stored[0] == Status.SESSION_DOES_NOT_EXIST:
            assert owner is not None, "a put without a session met none"
            owner.give_up()
            raise SessionLost(f"put {checks.shown(key)}: the session has expired, and its records with it")
        return put_result(key, stored)

    async def get(
        self,
        key: str,
        *,
        comparison: Comparison = Comparison.EQUAL,
        index: str | None = None,
        partition_key: str | None = None,
        include_value: bool = True,
    ) -> Record | None:
        checks.check_key(key, partition_key)
        if index is not None:
            checks.check_index(index)
        request = Get(key.encode(), include_value, COMPARISONS[comparison], None if index is None else index.encode())
        is_one_key = comparison is Comparison.EQUAL and index is None
        shards = self._shards_of(key if is_one_key and partition_key is None else partition_key)
        answers = [await self._told(shard.get(request)) for shard in shards]
        found = [record_of(answer[0], include_value, answer[1]) for answer in answers if answer is not None]
        return self._order.nearest(found, key, comparison) if len(found) > 1 else next(iter(found), None)

    async def delete(self, key: str, *, expected: int | None = None, partition_key: str | None = None) -> bool:
        checks.check_key(key, partition_key)
        checks.check_expected(key, expected)
        shard = self._shard_of(key if partition_key is None else partition_key)
        result = await self._told(shard.write(WriteBatch(deletes=[(key.encode(), expected)])))
        (status,) = result.deletes
        if status == Status.UNEXPECTED_VERSION_ID:
            raise _unexpected("delete", key, expected)
        return status == Status.OK

    async def delete_range(self, range: Range, *, partition_key: str | None = None) -> None:
        self._check_range(range, None, partition_key)
        checks.check_delete_range(range)
        bounds = (range.start.encode(), range.end.encode())
        for shard in self._shards_of(partition_key):
            await self._told(shard.write(WriteBatch(delete_ranges=[bounds])))

    def list(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[str]:
        self._check_range(range, index, partition_key)
        raw, shards = raw_range(range, index), self._shards_of(partition_key)
        if index is None:
            return self._read(shards, partial(reading.keys_of_range, range=raw), self._order.place_of_key, iter)
        begin = partial(reading.entries_of_index, range=raw)
        return self._read(shards, begin, partial(place_of_entry, self._engine_order), keys_of)

    def scan(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[Record]:
        self._check_range(range, index, partition_key)
        begin = reading.records_of_range if index is None else reading.records_of_index
        raw, shards = raw_range(range, index), self._shards_of(partition_key)
        return self._read(shards, partial(begin, range=raw), self._order.place_of_record, iter)

    async def _read(
        self,
        shards: Sequence[OpenShard],
        begin: Callable[[OpenShard], Source[T]],
        place: Callable[[T], Place],
        told: Callable[[builtins.list[T]], Iterable[U]],
    ) -> AsyncIterator[U]:
        """The items of some shards in one order, as they are told."""
        self._check_open()
        readers: list[Reader[T]] = []
        try:
            for shard in shards:
                readers.append(Reader(shard, begin(shard), self._clock))
            self.lasting.readers.update(readers)
            async with aclosing(merged(readers, place)) as portions:
                async for portion in portions:
                    for item in told(portion):
                        yield item
        except STORE_ERRORS as error:
            raise self._translated(error) from error
        finally:
            self.lasting.readers.difference_update(readers)
            for reader in readers:
                reader.finish()

    async def transact(
        self,
        partition_key: str,
        operations: Sequence[Operation],
        *,
        conditions: Sequence[Condition] = (),
        session: Session | None = None,
    ) -> tuple[PutResult | None, ...]:
        checks.check_transaction(partition_key, operations, conditions, session is not None)
        shard, owner = self._shard_of(partition_key), self._own(session)
        form = TransactionForm(operations, conditions)
        session_id = await self._told(owner.id_on(shard)) if owner is not None and form.needs_session else None
        transaction = form.encoded(partition_key, session_id, "" if owner is None else owner.identity)
        try:
            return form.results(await self._told(shard.transact(transaction)))
        except SessionLost:
            if owner is not None:
                owner.give_up()
            raise
        except ConditionsFailed as error:
            raise form.failure(error) from error

    # -- what lasts

    async def open_session(self, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS, *, identity: str = "") -> Session:
        checks.check_session(timeout_ms, identity)
        self._check_open()
        on_over = self.lasting.sessions.discard
        session = LocalSession(timeout_ms, identity, self._clock, self.inbox, self._translated, on_over)
        self.lasting.sessions.add(session)
        return session

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
        self._check_range(range, index, partition_key)
        shards, raw = self._shards_of(partition_key), raw_range(range, index)
        tokens = TokenForm(self._directory.identity, range, index, partition_key, len(shards))
        offsets = [] if resume is None else tokens.read(resume)
        spec = WatchSpec(raw.start, raw.end, raw.index_name, None if snapshot else NOW, previous_values)
        on_end = self.lasting.watches.discard
        watch = LocalWatch(shards, spec, offsets, tokens, self.inbox, self._translated, on_end)
        self.lasting.watches.add(watch)
        return watch

    def watch_sequence(self, prefix: str, *, partition_key: str) -> AsyncIterator[str]:
        checks.check_key(prefix, partition_key)
        return self._follow(SequenceWatch(self._shard_of(partition_key), prefix.encode(), self.inbox))

    async def _follow(self, sequence: SequenceWatch) -> AsyncIterator[str]:
        self._check_open()
        self.lasting.sequences.add(sequence)
        try:
            async with aclosing(sequence.keys()) as keys:
                async for key in keys:
                    yield key
        except STORE_ERRORS as error:
            raise self._translated(error) from error
        finally:
            self.lasting.sequences.discard(sequence)

    # -- the parts

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("the store was closed: open another one")

    def _shard_of(self, routing_key: str) -> OpenShard:
        self._check_open()
        return self.shards[place_of(routing_key.encode(), len(self.shards))]

    def _shards_of(self, routing_key: str | None) -> tuple[OpenShard, ...]:
        """The shard of a routing key; without one, all."""
        self._check_open()
        return self.shards if routing_key is None else (self._shard_of(routing_key),)

    def _check_range(self, range: Range, index: str | None, partition_key: str | None) -> None:
        if index is not None:
            checks.check_index(index)
        if partition_key is not None:
            checks.check_text("partition key", partition_key)
        checks.check_range(range, self._order.position)

    def _own(self, session: Session | None) -> LocalSession | None:
        """A session as this store's own; SessionLost if its owner has to take it for ended."""
        if session is None:
            return None
        if not isinstance(session, LocalSession) or session.inbox is not self.inbox:
            raise InvalidRequest("the session is another store's: open one with this store")
        session.check()
        return session

    async def _told(self, work: Awaitable[T]) -> T:
        """What the engine answers; its errors as those of the contract."""
        try:
            return await work
        except ConditionsFailed:
            raise
        except STORE_ERRORS as error:
            raise self._translated(error) from error

    def _translated(self, error: BaseException) -> BaseException:
        if isinstance(error, ShardStopped) and self._is_closed:
            return StoreClosed("the store was closed while the call was under way")
        return translated(error) if isinstance(error, STORE_ERRORS) else error

    # -- the end

    async def close(self) -> None:
        if self._closing is None:
            self._is_closed = True
            self._pool.close()
            self.lasting.fail(StoreClosed("the store was closed: open another one"))
            self.lasting.give_up()
            closer = ThreadPoolExecutor(1, "tidemark-close")
            self._closing = self.inbox.loop.run_in_executor(closer, self._close)
            closer.shutdown(wait=False)
        # Who cancels the wait has closed it all the same.
        await asyncio.shield(self._closing)

    def _close(self) -> None:
        """Ends the threads and releases the directory; everything under way is answered first."""
        self._housekeeper.stop()
        self._pool.wait_closed()
        self.lasting.close_readers()
        for shard in self.shards:
            shard.hub.close()
        self._directory.close()
        for driver in self._drivers:
            driver.stop()


def _unexpected(what: str, key: str, expected: int | None) -> UnexpectedVersion:
    wanted = "there is a record already" if expected == -1 else f"the record is not at version {expected}"
    return UnexpectedVersion(f"{what} {checks.shown(key)}: {wanted}; read it again", key, expected)
