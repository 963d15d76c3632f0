"""What writers tried and heard, and what a store says was done: whether the two fit together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

from metastore.interface.errors import OutcomeUnknown, Retriable, UnexpectedVersion
from metastore.interface.store import MetadataStore, Watch
from metastore.interface.values import BatchKind, Change


class Outcome(Enum):
    """What a writer heard of a write."""

    DONE = "acknowledged"
    NOT_DONE = "not done"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Attempt:
    """One write of one writer, who alone writes its key; no two have the same value."""

    key: str
    value: bytes
    outcome: Outcome


@dataclass
class History:
    """All attempts, those of each key in their order."""

    attempts: list[Attempt] = field(default_factory=list)

    def number_of(self, outcome: Outcome) -> int:
        return sum(attempt.outcome is outcome for attempt in self.attempts)

    async def write(self, store: MetadataStore, key: str, is_over: Callable[[int], bool], is_conditional: bool) -> None:
        """Writes a key again and again; after a write whose outcome is not known it looks what is there."""
        version_id: int | None = None
        for number in count():
            if is_over(number):
                return
            value = f"{key} {number}".encode()
            try:
                result = await store.put(key, value, expected=version_id if is_conditional else None)
            except OutcomeUnknown:
                self.attempts.append(Attempt(key, value, Outcome.UNKNOWN))
                version_id = await self._version_now(store, key)
            except (Retriable, UnexpectedVersion):
                self.attempts.append(Attempt(key, value, Outcome.NOT_DONE))
                version_id = await self._version_now(store, key)
            else:
                self.attempts.append(Attempt(key, value, Outcome.DONE))
                version_id = result.version.version_id

    async def _version_now(self, store: MetadataStore, key: str) -> int | None:
        record = await store.get(key)
        return None if record is None else record.version.version_id

    def violations(self, changes: list[Change]) -> list[str]:
        """What does not fit the changes of the store, which are complete."""
        done: dict[str, list[bytes]] = defaultdict(list)
        for change in changes:
            if change.record is not None and change.record.value is not None:
                done[change.key].append(change.record.value)
        found = []
        for key in {attempt.key for attempt in self.attempts}:
            attempts = [attempt for attempt in self.attempts if attempt.key == key]
            order = {attempt.value: number for number, attempt in enumerate(attempts)}
            places = [order[value] for value in done[key]]
            if sorted(set(places)) != places:
                found.append(f"{key}: done twice, or in another order than they were tried: {places}")
            for attempt in attempts:
                if attempt.outcome is Outcome.DONE and attempt.value not in done[key]:
                    found.append(f"{attempt.value!r} was acknowledged and is lost")
                if attempt.outcome is Outcome.NOT_DONE and attempt.value in done[key]:
                    found.append(f"{attempt.value!r} was said not to be done, and was")
        return found


async def changes_until(watch: Watch, last_keys: set[str]) -> list[Change]:
    """All changes, up to those of these keys."""
    changes: list[Change] = []
    missing = set(last_keys)
    while missing:
        batch = await anext(watch)
        if batch.kind is BatchKind.CHANGES:
            changes += batch.changes
            missing -= {change.key for change in batch.changes}
    return changes


def by_shard(changes: list[Change]) -> dict[int, list[tuple[int, str, bytes | None]]]:
    """What was told of each shard, in its order."""
    told: dict[int, list[tuple[int, str, bytes | None]]] = defaultdict(list)
    for change in changes:
        told[change.shard].append((change.offset, change.key, change.record.value if change.record else None))
    return dict(told)
