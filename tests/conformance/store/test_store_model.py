"""Any operations in any order, on a store and on a dictionary: both say the same."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from store_helpers import Follower, Place, collect
from store_model import Model

from metastore.interface import (
    ABSENT,
    Comparison,
    Condition,
    ConditionFailed,
    Delete,
    FailedCondition,
    Index,
    MetadataStore,
    Put,
    Range,
    Record,
    Session,
    UnexpectedVersion,
    open_store,
)
from metastore.interface.checks import is_numbered
from support.stores import Subject

EXAMPLES = 20
STEPS = 40
SESSIONS_MAX = 3

NAMES = st.sampled_from(["", "-", "0", "a", "a-", "a0", "ab", "b", "~"])
SECONDARY_KEYS = st.sampled_from(["1", "1_2", "1_20", "2", "~"])
VALUES = st.binary(max_size=3)
EXPECTATIONS = st.sampled_from(["any", "actual", "absent", "wrong"])
ENTRIES = st.lists(st.tuples(st.sampled_from(["i", "j"]), SECONDARY_KEYS), max_size=3)

_numbers = itertools.count()
T = TypeVar("T")


class StoreBesideModel(RuleBasedStateMachine):
    """All records are in one partition, or each in the partition of its own key."""

    subject: ClassVar[Subject]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.place = Place(f"model-{next(_numbers):04d}")
        self.store: MetadataStore = self.run(open_store(self.subject.url))
        self.model = Model()
        self.sessions: dict[int, Session] = {}
        self.session_numbers = itertools.count()
        self.partition: str | None = None
        self.follower = Follower(self.store.watch(self.place.range))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(30):
                return await coroutine

        return self.runner.run(bounded())

    def teardown(self) -> None:
        try:
            self.run(self.check_the_end())
        finally:
            self.run(self.store.close())
            self.runner.close()

    async def check_the_end(self) -> None:
        """The watch has told all that happened, and the store has what the model has."""
        found = {record.key: record async for record in self.store.scan(self.place.range)}
        assert sorted(found) == sorted(self.model.records)
        await self.follower.until(lambda state: state == found)
        await self.follower.watch.close()

    @initialize(has_partition=st.booleans(), begin=st.booleans())
    def choose(self, has_partition: bool, begin: bool) -> None:
        self.partition = self.place.name if has_partition else None
        if begin:
            self.run(self.begin())

    async def begin(self) -> None:
        await self.follower.begin()

    def indexes(self, entries: list[Index]) -> list[Index]:
        return [(self.place.index(name), secondary) for name, secondary in entries]

    def expected(self, key: str, kind: str) -> int | None:
        actual = self.model.version_id(key)
        return {"any": None, "actual": actual, "absent": ABSENT, "wrong": actual + 1_000_000}[kind]

    def same(self, record: Record | None, key: str | None) -> None:
        """The store's record is the model's of this key."""
        assert (record and record.key) == key
        if record is not None:
            known = self.model.records[record.key]
            assert (record.value, record.version.version_id) == (known.value, known.version_id)
            assert record.version.modifications == known.modifications
            assert record.version.is_ephemeral == (known.session is not None)

    # -- writes

    @rule(name=NAMES, value=VALUES, kind=EXPECTATIONS, entries=ENTRIES, is_ephemeral=st.booleans(), data=st.data())
    def put(
        self, name: str, value: bytes, kind: str, entries: list[Index], is_ephemeral: bool, data: st.DataObject
    ) -> None:
        key, indexes = self.place.key(name), self.indexes(entries)
        expected = self.expected(key, kind)
        number = data.draw(st.sampled_from(sorted(self.sessions))) if is_ephemeral and self.sessions else None
        put = self.store.put(
            key,
            value,
            expected=expected,
            session=None if number is None else self.sessions[number],
            partition_key=self.partition,
            indexes=indexes,
        )
        if expected not in (None, self.model.version_id(key)):
            with pytest.raises(UnexpectedVersion):
                self.run(put)
            return
        stored = self.run(put)
        assert stored.version.version_id > self.model.version_id(key)
        known = self.model.put(key, value, stored.version.version_id, indexes, number)
        assert stored.version.modifications == known.modifications

    @rule(name=NAMES, kind=EXPECTATIONS)
    def delete(self, name: str, kind: str) -> None:
        key = self.place.key(name)
        expected = self.expected(key, kind)
        delete = self.store.delete(key, expected=expected, partition_key=self.partition)
        if expected not in (None, self.model.version_id(key)):
            with pytest.raises(UnexpectedVersion):
                self.run(delete)
        else:
            assert self.run(delete) == self.model.delete(key)

    @rule(bounds=st.tuples(NAMES, NAMES))
    def delete_range(self, bounds: tuple[str, str]) -> None:
        range = Range(*(self.place.key(name) for name in sorted(bounds)))
        self.run(self.store.delete_range(range, partition_key=self.partition))
        self.model.delete_range(range)

    @precondition(lambda self: self.partition is not None)
    @rule(delta=st.integers(1, 5), value=VALUES)
    def put_next(self, delta: int, value: bytes) -> None:
        prefix = self.place.key("sequence")
        put = self.store.put(prefix, value, partition_key=self.partition, sequence_deltas=[delta])
        stored = self.run(put)
        assert stored.key == self.model.next_of_sequence(prefix, delta)
        self.model.put(stored.key, value, stored.version.version_id)

    @precondition(lambda self: self.partition is not None and self.store.capabilities.transact)
    @rule(
        puts=st.dictionaries(NAMES, st.tuples(VALUES, EXPECTATIONS), max_size=3),
        deletes=st.dictionaries(NAMES, EXPECTATIONS, max_size=3),
        conditions=st.lists(st.tuples(NAMES, st.sampled_from(["actual", "actual", "absent", "wrong"])), max_size=2),
        deltas=st.lists(st.integers(1, 5), max_size=2),
        loses_greatest=st.booleans(),
        choice=st.randoms(use_true_random=False),
    )
    def transact(
        self,
        puts: dict[str, tuple[bytes, str]],
        deletes: dict[str, str],
        conditions: list[tuple[str, str]],
        deltas: list[int],
        loses_greatest: bool,
        choice: random.Random,
    ) -> None:
        operations: list[Put | Delete] = [
            Put(self.place.key(name), value, self.expected(self.place.key(name), kind))
            for name, (value, kind) in puts.items()
        ]
        operations += [
            Delete(self.place.key(name), self.expected(self.place.key(name), kind))
            for name, kind in deletes.items()
            if name not in puts
        ]
        prefix = self.place.key("sequence")
        operations += [Put(prefix, b"%d" % delta, sequence_deltas=(delta,)) for delta in deltas]
        greatest = self.model.greatest_of_sequence(prefix)
        if loses_greatest and greatest is not None:
            operations.append(Delete(greatest))
        if not operations:
            return
        choice.shuffle(operations)
        asked = [(self.place.key(name), self.expected(self.place.key(name), kind)) for name, kind in conditions]
        demands = [Condition(key, version_id) for key, version_id in asked if version_id is not None]
        every = demands + [Condition(each.key, each.expected) for each in operations if each.expected is not None]
        failed = tuple(
            FailedCondition(place, each.key, each.version_id, self.model.version_id(each.key))
            for place, each in enumerate(every)
            if each.version_id != self.model.version_id(each.key)
        )
        assert self.partition is not None
        transaction = self.store.transact(self.partition, operations, conditions=demands)
        if failed:
            with pytest.raises(ConditionFailed) as caught:
                self.run(transaction)
            assert caught.value.failed == failed
            return
        applied = list(zip(operations, self.run(transaction), strict=True))
        for operation, result in sorted(applied, key=lambda each: not is_numbered(each[0])):
            if isinstance(operation, Put):
                assert result is not None
                key = operation.key
                if operation.sequence_deltas:
                    key = self.model.next_of_sequence(key, *operation.sequence_deltas)
                assert result.key == key
                self.model.put(key, operation.value, result.version.version_id)
            else:
                assert result is None
                self.model.delete(operation.key)

    # -- sessions

    @precondition(lambda self: len(self.sessions) < SESSIONS_MAX)
    @rule()
    def open_session(self) -> None:
        self.sessions[next(self.session_numbers)] = self.run(self.store.open_session())

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def close_session(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.sessions)))
        self.run(self.sessions.pop(number).close())
        self.model.end_session(number)

    # -- reads

    @rule(name=NAMES, comparison=st.sampled_from(Comparison))
    def get(self, name: str, comparison: Comparison) -> None:
        key = self.place.key(name)
        found = self.run(self.store.get(key, comparison=comparison, partition_key=self.partition))
        expected = self.model.nearest(key, comparison)
        is_of_others = found is not None and not found.key.startswith(self.place.name)
        self.same(None if is_of_others else found, expected)

    @rule(bounds=st.tuples(NAMES, NAMES))
    def read_range(self, bounds: tuple[str, str]) -> None:
        range = Range(*(self.place.key(name) for name in sorted(bounds)))
        expected = self.model.within(range)
        assert self.run(collect(self.store.list(range, partition_key=self.partition))) == expected
        for record, key in zip(self.run(collect(self.store.scan(range))), expected, strict=True):
            self.same(record, key)

    @rule(name=st.sampled_from(["i", "j"]), bounds=st.tuples(SECONDARY_KEYS, SECONDARY_KEYS | st.just("")))
    def read_index(self, name: str, bounds: tuple[str, str]) -> None:
        start, end = bounds
        range = Range(start, end) if not end or start <= end else Range(end, start)
        expected = [key for _, key in self.model.entries(self.place.index(name), range)]
        listed = self.run(collect(self.store.list(range, index=self.place.index(name), partition_key=self.partition)))
        is_ordered = self.partition is not None or self.store.capabilities.orders_index_scans
        assert (listed if is_ordered else sorted(listed)) == (expected if is_ordered else sorted(expected))
        for record in self.run(collect(self.store.scan(range, index=self.place.index(name)))):
            self.same(record, record.key)

    @rule(name=st.sampled_from(["i", "j"]), secondary=SECONDARY_KEYS, comparison=st.sampled_from(Comparison))
    def get_by_index(self, name: str, secondary: str, comparison: Comparison) -> None:
        index = self.place.index(name)
        found = self.run(self.store.get(secondary, comparison=comparison, index=index, partition_key=self.partition))
        entry = self.model.nearest_entry(index, secondary, comparison)
        self.same(found, None if entry is None else entry[1])
        assert (found and found.secondary_key) == (entry and entry[0])


def test_a_store_is_a_dictionary(subject: Subject) -> None:
    run_state_machine_as_test(
        type("Machine", (StoreBesideModel,), {"subject": subject}),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
