"""Changes: a watch that misses nothing, and transactions that leave nothing half done."""

from __future__ import annotations

from metastore.interface import (
    BatchKind,
    BlockingStore,
    BlockingWatch,
    Change,
    Condition,
    ConditionFailed,
    Put,
    children_of,
)
from metastore.stagecraft import begin_chapter, say

TASKS = children_of("/tasks")
ACCOUNTS = "accounts"
"""The partition key of the accounts: what is changed together lives together."""


def show_a_watch(store: BlockingStore) -> None:
    """A snapshot, changes, and where it goes on."""
    begin_chapter("A watch: what is there, every change of it, and on from where it ended")
    store.put("/tasks/a", b"waiting")
    store.put("/tasks/b", b"waiting")
    with store.watch(TASKS) as watch:
        say(f"the snapshot: {', '.join(_snapshot(watch))}")
        store.put("/tasks/a", b"running")
        store.delete("/tasks/b")
        token = _show_changes(watch, 2)
    say("the watch is closed, and meanwhile:")
    store.put("/tasks/a", b"done")
    store.put("/tasks/c", b"waiting")
    with store.watch(TASKS, resume=token) as watch:
        _show_changes(watch, 2)


def _snapshot(watch: BlockingWatch) -> list[str]:
    """The keys that are there when the watch begins."""
    keys: list[str] = []
    for batch in watch:
        keys += [record.key for record in batch.records]
        if batch.kind is BatchKind.SNAPSHOT_END:
            break
    return keys


def _show_changes(watch: BlockingWatch, count: int) -> str:
    """Tells so many changes; returns the token to go on from."""
    for batch in watch:
        for change in batch.changes:
            say(_told(change))
        count -= len(batch.changes)
        if count <= 0:
            break
    assert batch.token is not None, "behind the snapshot every batch has one"
    return batch.token


def _told(change: Change) -> str:
    value = "" if change.record is None else f": {change.record.value!r}"
    return f"offset {change.offset}: {change.kind.value} {change.key}{value}"


def show_transactions(store: BlockingStore) -> None:
    """All or nothing."""
    begin_chapter("A transaction: two records, or none")
    seen = store.put("/accounts/ann", b"10", partition_key=ACCOUNTS).version
    store.put("/accounts/bob", b"0", partition_key=ACCOUNTS)
    now = store.put("/accounts/ann", b"8", partition_key=ACCOUNTS).version
    move = [Put("/accounts/ann", b"5"), Put("/accounts/bob", b"3")]
    try:
        store.transact(ACCOUNTS, move, conditions=[Condition("/accounts/ann", seen.version_id)])
    except ConditionFailed as error:
        say(f"on a premise of yesterday it is refused: {error}")
    say(f"and nothing has changed: {_balances(store)}")
    store.transact(ACCOUNTS, move, conditions=[Condition("/accounts/ann", now.version_id)])
    say(f"on a premise that holds it applies: {_balances(store)}")


def _balances(store: BlockingStore) -> str:
    records = store.scan(children_of("/accounts"), partition_key=ACCOUNTS)
    return ", ".join(f"{record.key} {record.value!r}" for record in records)
