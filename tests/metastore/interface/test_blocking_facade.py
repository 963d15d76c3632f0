"""The blocking facade by itself: its thread, interruptions, other loops, and what is freed."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from metastore.interface import (
    ALL,
    BatchKind,
    BlockingSession,
    BlockingStore,
    BlockingWatch,
    InvalidRequest,
    InvalidUrl,
    MetadataStore,
    Range,
    Record,
    Session,
    StoreClosed,
    Unavailable,
    Watch,
)
from metastore.interface.blocking import PORTION_MAX
from metastore.interface.loop_thread import THREAD_NAME, LoopThread
from metastore.providers.memory import MemoryStore


class Recording(MemoryStore):
    """Says which scans were freed, and interrupts the main thread in the middle of some calls."""

    def __init__(self) -> None:
        super().__init__()
        self.scans = 0
        self.freed = threading.Semaphore(0)
        self.cancelled: list[str] = []

    def scan(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[Record]:
        return self._scan_and_tell(super().scan(range, index=index, partition_key=partition_key))

    async def _scan_and_tell(self, records: AsyncIterator[Record]) -> AsyncIterator[Record]:
        self.scans += 1
        try:
            async for record in records:
                yield record
        finally:
            self.scans -= 1
            self.freed.release()

    async def get(self, key: str, **options: Any) -> Record | None:
        if key == "interrupt":
            await self._interrupt("get")
        return await super().get(key, **options)

    async def _watch_sequence(self) -> AsyncIterator[str]:
        yield "first"
        await self._interrupt("watch_sequence")

    def watch_sequence(self, prefix: str, *, partition_key: str) -> AsyncIterator[str]:
        return self._watch_sequence()

    async def _interrupt(self, name: str) -> None:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise


def blocking(store: MetadataStore) -> BlockingStore:
    async def opener() -> MetadataStore:
        return store

    return BlockingStore(opener)


def parameters(method: Any) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize(
    ("original", "facade"), [(MetadataStore, BlockingStore), (Session, BlockingSession), (Watch, BlockingWatch)]
)
def test_every_method_is_there_with_the_same_arguments(original: type, facade: type) -> None:
    names = [name for name in vars(original) if not name.startswith("_")]
    assert {"close"} <= set(names)
    for name in names:
        method = getattr(original, name)
        if inspect.isfunction(method):
            assert parameters(getattr(facade, name)) == parameters(method), name
        else:
            assert isinstance(getattr(facade, name), property), name
    for name in getattr(original, "__annotations__", {}):
        assert isinstance(getattr(facade, name), property), name


def test_an_interrupted_call_is_cancelled_and_the_store_goes_on() -> None:
    store = Recording()
    with blocking(store) as facade:
        with pytest.raises(KeyboardInterrupt):
            facade.get("interrupt")
        assert store.cancelled == ["get"]
        facade.put("/a", b"1")
        assert facade.get("/a") is not None


def test_an_interrupted_watch_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted before a batch is there, and at the very moment at which it has arrived."""
    with BlockingStore.open("memory://") as facade, facade.watch() as watch:
        call = LoopThread.call

        def interrupted(self: LoopThread, coroutine: Any) -> Any:
            call(self, coroutine)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(LoopThread, "call", interrupted)
            with pytest.raises(KeyboardInterrupt):
                next(watch)
        assert [next(watch).kind for _ in range(2)] == [BatchKind.SNAPSHOT_BEGIN, BatchKind.SNAPSHOT_END]


def test_an_interrupted_iterator_is_freed() -> None:
    store = Recording()
    with blocking(store) as facade:
        keys = facade.watch_sequence("s", partition_key="p")
        assert next(keys) == "first"
        with pytest.raises(KeyboardInterrupt):
            next(keys)
        assert store.cancelled == ["watch_sequence"]
        with pytest.raises(StopIteration):
            next(keys)
        assert facade.get("/a") is None


def test_an_iterator_that_is_left_early_is_freed() -> None:
    store = Recording()
    with blocking(store) as facade:
        for number in range(10):
            facade.put(f"/{number}", b"")
        for record in facade.scan():
            assert (record.key, store.scans) == ("/0", 1)
            break
        del record
        gc.collect()
        assert store.freed.acquire(timeout=10)
        assert store.scans == 0


def test_items_arrive_one_then_more_at_a_time() -> None:
    store = MemoryStore()
    asked: list[int] = []

    async def numbers() -> AsyncIterator[str]:
        for number in range(4 * PORTION_MAX):
            asked.append(number)
            yield str(number)

    class Counting(MemoryStore):
        def list(
            self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
        ) -> AsyncIterator[str]:
            return numbers()

    store = Counting()
    with blocking(store) as facade:
        keys = facade.list()
        assert next(keys) == "0"
        assert len(asked) == 1
        taken = 1
        while len(asked) < 3 * PORTION_MAX:
            assert next(keys) == str(taken)
            taken += 1
            assert len(asked) - taken < PORTION_MAX
        assert [int(key) for key in keys] == list(range(taken, 4 * PORTION_MAX))


def test_what_came_before_an_error_is_delivered() -> None:
    class Breaking(MemoryStore):
        def list(
            self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
        ) -> AsyncIterator[str]:
            async def keys() -> AsyncIterator[str]:
                for key in "abcde":
                    yield key
                raise Unavailable("gone")

            return keys()

    with blocking(Breaking()) as facade:
        keys = facade.list()
        assert [next(keys) for _ in range(5)] == list("abcde")
        with pytest.raises(Unavailable):
            next(keys)


def test_several_threads_may_use_it() -> None:
    with BlockingStore.open("memory://?shards=3") as facade, ThreadPoolExecutor(8) as threads:
        for number, put in enumerate(threads.map(lambda n: facade.put(f"/{n:03d}", b"%d" % n), range(200))):
            assert put.key == f"/{number:03d}"
        assert set(threads.map(lambda _: len(list(facade.list())), range(8))) == {200}


def test_it_works_beside_a_running_loop() -> None:
    async def cell_of_a_notebook() -> bytes | None:
        with BlockingStore.open("memory://") as facade:
            facade.put("/a", b"1")
            found = facade.get("/a")
            return None if found is None else found.value

    assert asyncio.run(cell_of_a_notebook()) == b"1"


def test_closing_ends_calls_of_other_threads() -> None:
    store = MemoryStore()
    with ThreadPoolExecutor(2) as threads:
        facade = blocking(store)
        with facade.watch() as watch:
            for _ in range(2):
                next(watch)
            waiting = [threads.submit(next, watch)]
            session = facade.open_session()
            lost = threads.submit(session.wait_lost)
            facade.close()
            for call in waiting:
                with pytest.raises(StoreClosed):
                    call.result(timeout=10)
            assert lost.exception(timeout=10) is None or isinstance(lost.exception(), StoreClosed)
    with pytest.raises(StoreClosed):
        facade.put("/a", b"")
    assert not [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def test_a_store_that_does_not_open_leaves_no_thread() -> None:
    with pytest.raises(InvalidUrl):
        BlockingStore.open("nothing://")
    assert not [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def test_iterators_may_be_dropped_after_the_close() -> None:
    facade = BlockingStore.open("memory://")
    for number in range(10):
        facade.put(f"/{number}", b"")
    scan = facade.scan()
    next(scan)
    facade.close()
    with pytest.raises(StoreClosed):
        list(scan)
    late = facade.list()
    with pytest.raises(StoreClosed):
        next(late)
    del scan, late
    gc.collect()


def test_a_blocking_call_on_the_stores_own_loop_is_a_mistake() -> None:
    class Confused(MemoryStore):
        facade: BlockingStore

        async def get(self, key: str, **options: Any) -> Record | None:
            return self.facade.get(key)

    store = Confused()
    with blocking(store) as facade:
        store.facade = facade
        with pytest.raises(InvalidRequest, match="own event loop"):
            facade.get("/a")
