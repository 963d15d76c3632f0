"""The contract without `await`: for scripts, notebooks, and threads that have no event loop.

    with BlockingStore.open("lmdb:///var/lib/x") as store:
        store.put("/a", b"1")

A blocking store is an ordinary one on an event loop of its own, in a thread of its own. So it works where another
loop is running already, and any number of threads may use it at once. Every method has the name, the arguments, the
result and the errors of its original; what was an async iterator is a plain one. Interrupting a call (Ctrl-C) cancels
it, with what the contract says of cancelled calls, and the store goes on.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar

from metastore.interface.errors import StoreClosed
from metastore.interface.loop_thread import LoopThread
from metastore.interface.store import DEFAULT_SESSION_TIMEOUT_MS, MetadataStore, Session, Watch
from metastore.interface.urls import Environment, open_store
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

PORTION_MAX = 256
"""Keys or records that a list or a scan brings over from the loop at once, when it has got going."""

T = TypeVar("T")


class BlockingStore:
    """A store whose methods block; a context manager that closes it."""

    def __init__(self, opener: Callable[[], Awaitable[MetadataStore]]) -> None:
        self._thread = LoopThread()
        try:
            self._store = self._thread.call(_awaited(opener))
        except BaseException:
            self._thread.stop()
            raise

    @classmethod
    def open(cls, url: str, environment: Environment | None = None) -> BlockingStore:
        """Opens the store at a URL."""
        return cls(lambda: open_store(url, environment))

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    @property
    def key_sorting(self) -> str:
        return self._store.key_sorting

    def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        session: BlockingSession | None = None,
        partition_key: str | None = None,
        sequence_deltas: Sequence[int] = (),
        indexes: Sequence[Index] = (),
    ) -> PutResult:
        return self._thread.call(
            self._store.put(
                key,
                value,
                expected=expected,
                session=None if session is None else session.session,
                partition_key=partition_key,
                sequence_deltas=sequence_deltas,
                indexes=indexes,
            )
        )

    def get(
        self,
        key: str,
        *,
        comparison: Comparison = Comparison.EQUAL,
        index: str | None = None,
        partition_key: str | None = None,
        include_value: bool = True,
    ) -> Record | None:
        return self._thread.call(
            self._store.get(
                key, comparison=comparison, index=index, partition_key=partition_key, include_value=include_value
            )
        )

    def delete(self, key: str, *, expected: int | None = None, partition_key: str | None = None) -> bool:
        return self._thread.call(self._store.delete(key, expected=expected, partition_key=partition_key))

    def delete_range(self, range: Range, *, partition_key: str | None = None) -> None:
        self._thread.call(self._store.delete_range(range, partition_key=partition_key))

    def list(self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None) -> Iterator[str]:
        return self._iterate(lambda: self._store.list(range, index=index, partition_key=partition_key), PORTION_MAX)

    def scan(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> Iterator[Record]:
        return self._iterate(lambda: self._store.scan(range, index=index, partition_key=partition_key), PORTION_MAX)

    def transact(
        self,
        partition_key: str,
        operations: Sequence[Operation],
        *,
        conditions: Sequence[Condition] = (),
        session: BlockingSession | None = None,
    ) -> tuple[PutResult | None, ...]:
        inner = None if session is None else session.session
        return self._thread.call(self._store.transact(partition_key, operations, conditions=conditions, session=inner))

    def open_session(self, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS, *, identity: str = "") -> BlockingSession:
        session = self._thread.call(self._store.open_session(timeout_ms, identity=identity))
        return BlockingSession(session, self._thread)

    def watch(
        self,
        range: Range = ALL,
        *,
        index: str | None = None,
        partition_key: str | None = None,
        resume: str | None = None,
        snapshot: bool = True,
        previous_values: bool = False,
    ) -> BlockingWatch:
        async def begin() -> Watch:
            return self._store.watch(
                range,
                index=index,
                partition_key=partition_key,
                resume=resume,
                snapshot=snapshot,
                previous_values=previous_values,
            )

        return BlockingWatch(self._thread.call(begin()), self._thread)

    def watch_sequence(self, prefix: str, *, partition_key: str) -> Iterator[str]:
        return self._iterate(lambda: self._store.watch_sequence(prefix, partition_key=partition_key), 1)

    def close(self) -> None:
        """Closes the store and ends its loop and thread; calls of other threads end with StoreClosed."""
        try:
            self._thread.call(self._store.close())
        except StoreClosed:
            return  # closed already, or at this moment by another thread
        finally:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _iterate(self, begin: Callable[[], AsyncIterator[T]], portion_max: int) -> Iterator[T]:
        """A plain iterator over an async one; the first item comes alone, then always more of them at once."""
        source: AsyncIterator[T] | None = None
        portion = 1

        async def take() -> tuple[builtins.list[T], Exception | None]:
            nonlocal source
            items: builtins.list[T] = []
            try:
                source = source if source is not None else begin()
                while len(items) < portion:
                    items.append(await anext(source))
            except (StopAsyncIteration, Exception) as error:
                return items, error
            return items, None

        async def free(left: AsyncIterator[T]) -> None:
            if hasattr(left, "aclose"):
                await left.aclose()

        try:
            while True:
                items, error = self._thread.call(take())
                yield from items
                if isinstance(error, StopAsyncIteration):
                    return
                if error is not None:
                    raise error
                portion = min(portion * 2, portion_max)
        finally:
            if source is not None:
                self._thread.finish(free(source))


class BlockingSession:
    """A session; its heartbeats go on in the background, whatever the program does."""

    def __init__(self, session: Session, thread: LoopThread) -> None:
        self.session = session
        self._thread = thread

    @property
    def identity(self) -> str:
        return self.session.identity

    @property
    def timeout_ms(self) -> int:
        return self.session.timeout_ms

    @property
    def is_lost(self) -> bool:
        return self.session.is_lost

    @property
    def remaining_s(self) -> float:
        return self.session.remaining_s

    def wait_lost(self) -> None:
        self._thread.call(self.session.wait_lost())

    def close(self) -> None:
        self._thread.call(self.session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingWatch:
    """The news of a range: an iterator of batches, for one thread at a time, to be used in `with`."""

    def __init__(self, watch: Watch, thread: LoopThread) -> None:
        self._watch = watch
        self._thread = thread
        self._batch: WatchBatch | None = None  # one that arrived while the wait for it was interrupted

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> WatchBatch:
        async def take() -> None:
            self._batch = await anext(self._watch, None)

        if self._batch is None:
            self._thread.call(take())
        batch, self._batch = self._batch, None
        if batch is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        self._thread.finish(self._watch.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _awaited(opener: Callable[[], Awaitable[T]]) -> T:
    return await opener()
