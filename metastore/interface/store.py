"""The contract. What is promised here holds for every provider, and one suite of tests asks it of each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from metastore.interface.values import (
    ALL,
    Capabilities,
    Comparison,
    Condition,
    Index,
    Operation,
    PutResult,
    Range,
    Record,
    WatchBatch,
)

DEFAULT_SESSION_TIMEOUT_MS = 15_000


class Session(ABC):
    """A promise to be alive, kept by heartbeats in the background; ephemeral records last as long as it does."""

    identity: str
    timeout_ms: int

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """Whether the session must be taken for ended.

        It turns true before the store can end the session by itself: whoever holds something by it has let go of it
        before another can have it. This judgement needs no answer from the store, only a clock.
        """

    @property
    @abstractmethod
    def remaining_s(self) -> float:
        """How long the session can be relied upon without another heartbeat; 0 when it is lost."""

    @abstractmethod
    async def wait_lost(self) -> None:
        """Returns when the session is lost or closed."""

    @abstractmethod
    async def close(self) -> None:
        """Ends the session: when this returns its records are gone. Closing a lost or closed one does nothing.

        It `is_lost` from the call on.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Watch(ABC):
    """The news of a range: an async iterator of batches. To be used in `async with`, by one task at a time.

    It goes on across reconnects and restarts of the server by itself, without loss and without repetition. What it
    cannot go on from it raises: TokenExpired when the changes it needs are no longer kept.
    """

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> WatchBatch:
        """The next batch, waited for. Cancelling the wait loses nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Ends the watch and frees what it holds, here and at the server."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class MetadataStore(ABC):
    """Records by key, in partitions.

    A record lives in the partition of its partition key, or of its own key where it has none. All records of one
    partition are on one shard and share what only a shard can give: one order of writes, sequences, `transact`, and
    ordered answers of an index. A call that names a partition key asks that partition's shard alone; without one, a
    call that names a single key asks the shard of that key, and a call over a range asks all shards and puts their
    answers together. A record with a partition key is found under its key only where the same partition key is given.

    Reads see every write that was acknowledged before they began. A scan or list sees one state of each shard.

    All methods raise the errors of `metastore.interface.errors` and no others. Cancelling a write that is under way
    leaves its outcome open; cancelling anything else leaves no trace. One store object serves any number of tasks of
    one event loop.
    """

    capabilities: Capabilities
    key_sorting: str
    """The order of keys: `hierarchical` (shallow before deep, children of a path side by side) or `natural` (bytes)."""

    # -- records

    @abstractmethod
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
        """Stores a record: a new one, or in place of the one there is. It is durable when this returns.

        `expected` makes it conditional: on that version id, or on there being no record (ABSENT); UnexpectedVersion
        otherwise. With a `session` the record is ephemeral, whosever it was before; SessionLost if that has ended.
        `indexes` are the (index name, secondary key) pairs of the record and replace all that it had.

        `sequence_deltas` makes `key` the prefix of a generated key: the numbers of the sequence's greatest key, each
        increased by its delta, 20 digits each, joined by `-` behind the prefix. The first delta must be greater than
        0. It takes a partition key and no `expected`. No generated key is ever generated again while a greater one
        exists.
        """

    @abstractmethod
    async def get(
        self,
        key: str,
        *,
        comparison: Comparison = Comparison.EQUAL,
        index: str | None = None,
        partition_key: str | None = None,
        include_value: bool = True,
    ) -> Record | None:
        """The record with this key, or the nearest one on the side that the comparison says; None if there is none.

        With an `index`, the key is a secondary key of it, and so is what is compared. Of several records with the same
        secondary key the first by its own key answers (for LOWER, and a FLOOR that is not exact, the last). An index
        that no record has is empty.
        """

    @abstractmethod
    async def delete(self, key: str, *, expected: int | None = None, partition_key: str | None = None) -> bool:
        """Removes a record; False if there was none. With `expected`, only at that version: else UnexpectedVersion."""

    @abstractmethod
    async def delete_range(self, range: Range, *, partition_key: str | None = None) -> None:
        """Removes the records of a range: at one instant on each shard, on one shard after another.

        The range needs an end: InvalidRequest without one, so that nobody empties a store by leaving something out.
        """

    @abstractmethod
    def list(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[str]:
        """The keys of a range, in the store's order, as they arrive; internal ones are left out.

        With an `index` the range is one of its secondary keys, exactly: `1_2` never matches `1_20`. The (primary) keys
        come in the order of their secondary keys, ties by key; see `Capabilities.orders_index_scans`. A record with
        several secondary keys in the range comes once for each.
        """

    @abstractmethod
    def scan(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[Record]:
        """Like `list`, but the records."""

    @abstractmethod
    async def transact(
        self,
        partition_key: str,
        operations: Sequence[Operation],
        *,
        conditions: Sequence[Condition] = (),
        session: Session | None = None,
    ) -> tuple[PutResult | None, ...]:
        """All or nothing, in one partition: if every condition holds all operations apply in one commit, else none.

        ConditionFailed says which did not hold. Conditions are judged by the state before the first operation; so are
        the versions that operations expect. No key may have two operations. The answers are the stored versions of the
        puts, None for deletes. Other readers see all of it or nothing of it, watches tell it in one batch.

        Puts to sequences are numbered before anything else happens, in their order: each by the state before the first
        operation and by those numbered before it, so that several with one prefix follow each other. InvalidRequest,
        and nothing is changed, if a generated key is one that another operation names.

        Unsupported on a store without it: see `capabilities`. What callers may rely on without it: each single put or
        delete is atomic and may be conditional, and nothing more.
        """

    # -- what lasts

    @abstractmethod
    async def open_session(self, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS, *, identity: str = "") -> Session:
        """A session for ephemeral records, kept alive in the background until it is closed or lost.

        A session that is lost stays lost: its records are gone, and their owner has to know. Open another one.
        """

    @abstractmethod
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
        """A snapshot of a range, then every change of it, in one call and without a gap in between.

        The batches: SNAPSHOT_BEGIN, any number of SNAPSHOT, SNAPSHOT_END, then CHANGES and PROGRESS. The snapshot is
        of one state of each shard, and the changes of a shard begin right behind that state. If the connection breaks
        before SNAPSHOT_END the snapshot begins anew, with another SNAPSHOT_BEGIN; after it, never again.

        `resume` takes the token of an earlier batch, of this store object or of one long gone: there is no snapshot
        then, and what comes first is the change right behind that batch. TokenExpired if that is no longer kept,
        InvalidToken if the token is of another range or store. With `snapshot` false the watch begins now: its first
        batch is a PROGRESS with a token, and every later change follows.

        With an `index` the range is one of its secondary keys, and a record is in the range while it has a secondary
        key there. A range whose end is before its start is an InvalidRequest. `previous_values` adds what each record
        was before.

        Where `Capabilities.watches_every_change` is false, several changes of one record may come as one. Then as
        always: per record they come in their order, the last one always comes, and a batch never says what was never
        true.
        """

    @abstractmethod
    def watch_sequence(self, prefix: str, *, partition_key: str) -> AsyncIterator[str]:
        """The greatest key of a sequence, if there is one, then each new one.

        Some are left out when the reader is slow, never the last.
        """

    # -- the end

    @abstractmethod
    async def close(self) -> None:
        """Ends what is under way and frees everything. Sessions still open are left to expire."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
