"""The engine's errors, as the contract tells them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import lmdb
import pytest
from local_helpers import opened, run

from metastore.engine import errors as engine
from metastore.engine import limits
from metastore.interface import (
    ABSENT,
    Condition,
    ConditionFailed,
    Delete,
    FailedCondition,
    InvalidRequest,
    LimitExceeded,
    Operation,
    Overloaded,
    Put,
    SessionLost,
    StoreError,
    StoreFailed,
    StoreFull,
    TokenExpired,
    Unavailable,
    UnexpectedVersion,
)
from metastore.providers.local.failures import STORE_ERRORS, translated
from metastore.watch.errors import OffsetTrimmed, PreviousValuesMissing, TooManyWatches


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (engine.InvalidRequest("why"), InvalidRequest),
        (engine.InvalidSessionTimeout(1), InvalidRequest),
        (engine.SessionNotFound(7), SessionLost),
        (engine.StoreFull("why"), StoreFull),
        (engine.Overloaded("why"), Overloaded),
        (engine.ShardStopped("why"), StoreFailed),
        (engine.StoreInUse("why"), Unavailable),
        (engine.StoreDamaged("why"), StoreFailed),
        (OffsetTrimmed(1, 5), TokenExpired),
        (PreviousValuesMissing(1, 5), TokenExpired),
        (TooManyWatches("why"), LimitExceeded),
        (lmdb.Error("why"), StoreFailed),
        (OSError(5, "why"), StoreFailed),
    ],
)
def test_every_error_has_its_place_in_the_tree(error: Exception, expected: type[StoreError]) -> None:
    assert isinstance(error, STORE_ERRORS)
    assert type(translated(error)) is expected


def test_a_full_queue_refuses_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITING_REQUESTS_MAX", 0)

    async def scenario() -> None:
        async with await opened(tmp_path) as store:
            with pytest.raises(Overloaded):
                await store.put("/a", b"")

    run(scenario)


def test_a_used_up_quota_refuses_puts_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "quota=1KiB&sync=false") as store:
            await store.put("/a", bytes(1 << 20))
            await asyncio.to_thread(store.shards[0].shard.feeder.feed_all)  # the size is judged when LMDB has moved
            with pytest.raises(StoreFull):
                await store.put("/b", b"")
            assert await store.delete("/a")
            assert await store.get("/b") is None

    run(scenario)


def test_conditions_are_counted_as_the_caller_gave_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path) as store:
            at = (await store.put("/there", b"", partition_key="p")).version.version_id
            operations: list[Operation] = [
                Delete("/a", expected=1),
                Put("/free", b""),
                Put("/b", b"", expected=2),
                Put("/c", b"", expected=ABSENT),
                Delete("/there", expected=at + 1),
            ]
            conditions = [Condition("/d", ABSENT), Condition("/e", 3)]
            with pytest.raises(ConditionFailed) as refused:
                await store.transact("p", operations, conditions=conditions)
            assert refused.value.failed == (
                FailedCondition(1, "/e", 3, ABSENT),
                FailedCondition(2, "/a", 1, ABSENT),
                FailedCondition(3, "/b", 2, ABSENT),
                FailedCondition(5, "/there", at + 1, at),
            )
            assert await store.get("/free", partition_key="p") is None

    run(scenario)


def test_a_version_conflict_names_the_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path) as store:
            await store.put("/a", b"")
            for expected in (ABSENT, 99):
                with pytest.raises(UnexpectedVersion, match="'/a'") as refused:
                    await store.put("/a", b"", expected=expected)
                assert (refused.value.key, refused.value.expected) == ("/a", expected)
            with pytest.raises(UnexpectedVersion, match="'/a'"):
                await store.delete("/a", expected=99)

    run(scenario)
