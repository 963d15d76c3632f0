"""A store as a dictionary: what the contract says of records in one order, for tests that compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from metastore.interface import ABSENT, Comparison, Index, Range


@dataclass(frozen=True)
class ModelRecord:
    """What is known of a record; the version id is what the store said."""

    value: bytes
    version_id: int
    modifications: int
    indexes: tuple[Index, ...] = ()
    session: int | None = None
    """The number of the session with which it goes."""


@dataclass
class Model:
    """Keys have no slashes and no characters that need escaping, so that all orders are that of their bytes."""

    records: dict[str, ModelRecord] = field(default_factory=dict)

    def version_id(self, key: str) -> int:
        record = self.records.get(key)
        return ABSENT if record is None else record.version_id

    def put(
        self, key: str, value: bytes, version_id: int, indexes: Sequence[Index] = (), session: int | None = None
    ) -> ModelRecord:
        before = self.records.get(key)
        modifications = 0 if before is None else before.modifications + 1
        self.records[key] = ModelRecord(value, version_id, modifications, tuple(indexes), session)
        return self.records[key]

    def delete(self, key: str) -> bool:
        return self.records.pop(key, None) is not None

    def delete_range(self, range: Range) -> None:
        for key in self.within(range):
            del self.records[key]

    def end_session(self, session: int) -> None:
        for key in [key for key, record in self.records.items() if record.session == session]:
            del self.records[key]

    def within(self, range: Range) -> list[str]:
        return sorted(key for key in self.records if holds(range, key))

    def entries(self, index: str, range: Range) -> list[tuple[str, str]]:
        """Secondary keys and keys, in order."""
        pairs = ((key, record.indexes) for key, record in self.records.items())
        return sorted(
            {
                (secondary, key)
                for key, indexes in pairs
                for name, secondary in indexes
                if name == index and holds(range, secondary)
            }
        )

    def nearest(self, key: str, comparison: Comparison) -> str | None:
        return nearest(sorted(self.records), key, comparison)

    def nearest_entry(self, index: str, asked: str, comparison: Comparison) -> tuple[str, str] | None:
        entries = self.entries(index, Range())
        secondary = nearest(sorted({secondary for secondary, _ in entries}), asked, comparison)
        keys = [key for each, key in entries if each == secondary]
        if secondary is None:
            return None
        is_last = comparison is Comparison.LOWER or (comparison is Comparison.FLOOR and secondary != asked)
        return secondary, keys[-1 if is_last else 0]

    def greatest_of_sequence(self, prefix: str) -> str | None:
        return max((key for key in self.records if key.startswith(prefix + "-")), default=None)

    def next_of_sequence(self, prefix: str, delta: int) -> str:
        greatest = self.greatest_of_sequence(prefix)
        number = 0 if greatest is None else int(greatest.removeprefix(prefix + "-"))
        return f"{prefix}-{number + delta:020d}"


def holds(range: Range, key: str) -> bool:
    return range.start <= key and (not range.end or key < range.end)


def nearest(ordered: list[str], asked: str, comparison: Comparison) -> str | None:
    """The place that a comparison chooses among places in order."""
    below = [each for each in ordered if each < asked]
    exact = [each for each in ordered if each == asked]
    above = [each for each in ordered if each > asked]
    candidates = {
        Comparison.EQUAL: exact,
        Comparison.FLOOR: exact or below[-1:],
        Comparison.LOWER: below[-1:],
        Comparison.CEILING: exact or above[:1],
        Comparison.HIGHER: above[:1],
    }[comparison]
    return candidates[0] if candidates else None
