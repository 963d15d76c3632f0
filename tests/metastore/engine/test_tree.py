"""The tree: against a sorted dict, in a real LMDB, with keys around every border that it has inside."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from unittest.mock import patch

import lmdb
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from metastore.engine import limits
from metastore.engine.tree import HEAD, Item, Transaction, Tree

MAP_BYTES = 256 << 20
ALL = 1_000_000
T = TypeVar("T")
KEY_64_KIB = b"p" * (64 << 10)

# All keys begin with a stretch of the same two prefixes, so that they share heads and part at every depth.
LENGTHS = [0, 1, 498, 499, 500, 501, 507, 508, 509, 600, 999, 1000, 1001, 1200, 1499, 1500, 3000]
ENDS = [b"", b"\0", b"\0\0", b"\x01", b"a", b"q", b"\xff", b"\xff\xff"]
PREFIXES = [b"p", b"p", b"\xff", b"\0"]
KEYS = st.builds(
    lambda byte, length, end: byte * length + end,
    st.sampled_from(PREFIXES),
    st.sampled_from(LENGTHS),
    st.sampled_from(ENDS),
) | st.binary(max_size=3)
VALUES = st.sampled_from([b"", b"\0", b"\0" * 7 + b"\x01", b"value", b"v" * 5000])
STOPS = st.none() | KEYS
LIMITS = st.integers(1, 6) | st.sampled_from([0, ALL])


def expected_range(model: dict[bytes, bytes], start: bytes, stop: bytes | None) -> list[Item]:
    """The items of [start, stop) in order."""
    keys = sorted(model)
    low = bisect_left(keys, start)
    high = len(keys) if stop is None else bisect_left(keys, stop)
    return [(key, model[key]) for key in keys[low:high]]


def gathered(
    read: Callable[[bytes, int], tuple[list[T], bytes | None]], key_of: Callable[[T], bytes], start: bytes, limit: int
) -> list[T]:
    """Up to `limit` of them, read on as often as they are too large to be read in one go."""
    found, following = read(start, limit)
    while following is not None and len(found) < limit:
        assert following == key_of(found[-1]) + b"\0"
        more, following = read(following, limit - len(found))
        found += more
    return found


def up(tree: Tree, transaction: Transaction, start: bytes, stop: bytes | None, limit: int) -> list[Item]:
    return gathered(lambda low, most: tree.ascending(transaction, low, stop, most), itemgetter(0), start, limit)


def keys_up(tree: Tree, transaction: Transaction, start: bytes, stop: bytes | None, limit: int) -> list[bytes]:
    return gathered(lambda low, most: tree.ascending_keys(transaction, low, stop, most), bytes, start, limit)


def open_environment(path: Path | str, map_bytes: int = MAP_BYTES) -> lmdb.Environment:
    return lmdb.open(str(path), map_size=map_bytes, max_dbs=8, sync=False)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[lmdb.Environment]:
    with open_environment(tmp_path) as environment:
        yield environment


@pytest.fixture
def tree(environment: lmdb.Environment) -> Tree:
    return Tree(environment, "records")


@pytest.fixture
def transaction(environment: lmdb.Environment, tree: Tree) -> Iterator[Transaction]:
    with environment.begin(write=True) as transaction:
        yield transaction


class TreeMachine(RuleBasedStateMachine):
    """Changes and reads in any order, committed or not, beside a neighbour that must not notice."""

    @initialize()
    def open(self) -> None:
        self.directory = TemporaryDirectory()
        self.environment = open_environment(self.directory.name)
        self.neighbour = Tree(self.environment, "neighbour")
        self.tree = Tree(self.environment, "records")
        self.transaction = self.environment.begin(write=True)
        self.neighbours = sorted((b"p" * length, b"%d" % length) for length in LENGTHS)
        self.neighbour.put_all(self.transaction, self.neighbours)
        self.model: dict[bytes, bytes] = {}
        self.renew()

    def renew(self) -> None:
        self.transaction.commit()
        self.committed = dict(self.model)
        self.transaction = self.environment.begin(write=True)

    @rule(items=st.dictionaries(KEYS, VALUES, max_size=12))
    def put_all(self, items: dict[bytes, bytes]) -> None:
        self.tree.put_all(self.transaction, sorted(items.items()))
        self.model.update(items)

    @rule(keys=st.sets(KEYS, max_size=6))
    def delete_all(self, keys: set[bytes]) -> None:
        self.tree.delete_all(self.transaction, sorted(keys))
        for key in keys:
            self.model.pop(key, None)

    @precondition(lambda self: self.model)
    @rule(start=KEYS, stop=STOPS)
    def delete_range(self, start: bytes, stop: bytes | None) -> None:
        keys = keys_up(self.tree, self.transaction, start, stop, ALL)
        assert keys == [key for key, _ in expected_range(self.model, start, stop)]
        self.tree.delete_all(self.transaction, keys)
        for key in keys:
            del self.model[key]

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        assert self.tree.get(self.transaction, key) == self.model.get(key)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def get_stored(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        assert self.tree.get(self.transaction, key) == self.model[key]

    @rule(start=KEYS, stop=STOPS, limit=LIMITS.filter(bool))
    def read_up(self, start: bytes, stop: bytes | None, limit: int) -> None:
        expected = expected_range(self.model, start, stop)[:limit]
        assert up(self.tree, self.transaction, start, stop, limit) == expected
        keys = keys_up(self.tree, self.transaction, start, stop, limit)
        assert keys == [key for key, _ in expected]

    @rule(start=KEYS, stop=STOPS, limit=LIMITS)
    def read_down(self, start: bytes, stop: bytes | None, limit: int) -> None:
        expected = expected_range(self.model, start, stop)[::-1][:limit]
        assert self.tree.descending(self.transaction, start, stop, limit) == expected

    @rule(size=st.integers(1, 4))
    def page_through(self, size: int) -> None:
        found: list[Item] = []
        page = up(self.tree, self.transaction, b"", None, size)
        while page:
            found += page
            page = up(self.tree, self.transaction, page[-1][0] + b"\0", None, size)
        assert found == sorted(self.model.items())

    @rule(start=KEYS, stop=STOPS, limit=LIMITS.filter(bool), size=st.sampled_from([1, 6, 5_001]))
    def read_up_large_values(self, start: bytes, stop: bytes | None, limit: int, size: int) -> None:
        expected = expected_range(self.model, start, stop)
        every_key = [key for key, _ in expected]
        with patch.object(limits, "SCAN_CHUNK_BYTES", size):
            following: bytes | None = start
            while following is not None:
                items, following = self.tree.ascending(self.transaction, following, stop, limit)
                assert items == expected[: len(items)]
                assert len(items) <= limit
                assert sum(len(key) + len(value) for key, value in items[:-1]) < size
                assert following in (None, items[-1][0] + b"\0" if items else None)
                expected = expected[len(items) :]
            assert keys_up(self.tree, self.transaction, start, stop, ALL) == every_key
        assert not expected

    @rule()
    def commit(self) -> None:
        self.renew()

    @rule()
    def abort(self) -> None:
        self.transaction.abort()
        self.model = dict(self.committed)
        self.transaction = self.environment.begin(write=True)

    @invariant()
    def nothing_is_left_of_what_was_removed(self) -> None:
        if not self.model:
            assert self.tree.size_bytes(self.transaction) == 0

    def teardown(self) -> None:
        everything = up(self.tree, self.transaction, b"", None, ALL)
        assert everything == sorted(self.model.items())
        self.tree.delete_all(self.transaction, sorted(self.model))
        assert self.tree.size_bytes(self.transaction) == 0
        assert up(self.neighbour, self.transaction, b"", None, ALL) == self.neighbours
        self.transaction.commit()
        self.environment.close()
        self.directory.cleanup()


TreeMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=25, deadline=None, database=None, derandomize=True
)
TestTreeMachine = TreeMachine.TestCase


def every_key() -> list[bytes]:
    return sorted({byte * length + end for byte in PREFIXES for length in LENGTHS for end in ENDS})


@pytest.mark.parametrize("limit", [1, 3, ALL])
def test_every_range_of_adversarial_keys(tree: Tree, transaction: Transaction, limit: int) -> None:
    model = {key: b"%d" % place for place, key in enumerate(every_key()) if place % 3 == 0}
    tree.put_all(transaction, sorted(model.items()))
    borders = every_key()[::5]
    for start in borders:
        for stop in [*borders[::4], None]:
            expected = expected_range(model, start, stop)
            assert up(tree, transaction, start, stop, limit) == expected[:limit]
            assert tree.descending(transaction, start, stop, limit) == expected[::-1][:limit]


def test_a_page_is_full_although_the_node_at_its_border_holds_nothing_of_it(
    tree: Tree, transaction: Transaction
) -> None:
    head = b"p" * HEAD
    tree.put_all(transaction, [(b"a", b"1"), (b"b", b"2"), (head + b"m", b"3"), (b"q", b"4"), (b"r", b"5")])
    assert up(tree, transaction, head + b"n", None, 2) == [(b"q", b"4"), (b"r", b"5")]
    assert keys_up(tree, transaction, head + b"n", None, 2) == [b"q", b"r"]
    assert tree.descending(transaction, b"", head + b"l", 2) == [(b"b", b"2"), (b"a", b"1")]


@pytest.mark.parametrize("length", [HEAD - 1, HEAD, HEAD + 1, 508, 511, 512, 1000, 65536, 400_000])
def test_one_key_of_a_certain_length(tree: Tree, transaction: Transaction, length: int) -> None:
    key = b"k" * length
    tree.put_all(transaction, [(key, b"value")])
    assert tree.get(transaction, key) == b"value"
    assert tree.get(transaction, key[:-1]) is None
    assert tree.get(transaction, key + b"\0") is None
    assert up(tree, transaction, b"", None, 2) == [(key, b"value")]
    assert tree.descending(transaction, b"", None, 2) == [(key, b"value")]
    tree.delete_all(transaction, [key[:-1], key + b"\0"])
    assert tree.get(transaction, key) == b"value"
    tree.put_all(transaction, [(key, b"")])
    assert tree.get(transaction, key) == b""
    tree.delete_all(transaction, [key])
    assert tree.get(transaction, key) is None
    assert tree.size_bytes(transaction) == 0


def test_keys_of_64_kib(tree: Tree, transaction: Transaction) -> None:
    places = (1, 2, 700, 30_000, 65_000)
    items = sorted((KEY_64_KIB[:-place] + b"\xff" * place, b"%d" % place) for place in places)
    tree.put_all(transaction, items)
    assert up(tree, transaction, b"", None, ALL) == items
    assert tree.descending(transaction, items[1][0], items[4][0], ALL) == items[3:0:-1]
    assert [tree.get(transaction, key) for key, _ in items] == [value for _, value in items]
    tree.delete_all(transaction, [key for key, _ in items[1:]])
    assert up(tree, transaction, b"", None, ALL) == items[:1]
    tree.delete_all(transaction, [items[0][0]])
    assert tree.size_bytes(transaction) == 0


def test_a_node_stays_until_its_last_key_goes(tree: Tree, transaction: Transaction) -> None:
    keys = [b"p" * 500, b"p" * 501, b"p" * 1000, b"p" * 1001, b"p" * 1600]
    for last in keys:
        tree.put_all(transaction, [(key, b"") for key in keys])
        assert tree.count(transaction) == 1
        for key in keys:
            if key != last:
                tree.delete_all(transaction, [key])
        assert keys_up(tree, transaction, b"", None, ALL) == [last]
        tree.delete_all(transaction, [last])
        assert tree.size_bytes(transaction) == 0


def test_new_nodes_do_not_disturb_older_ones(tree: Tree, transaction: Transaction) -> None:
    model: dict[bytes, bytes] = {}
    for place in range(60):
        key = b"%02d" % (place * 37 % 60) + b"x" * (498 + place * 40)
        tree.put_all(transaction, [(key, b"%d" % place)])
        model[key] = b"%d" % place
        if place % 3 == 2:
            removed = sorted(model)[place % len(model)]
            tree.delete_all(transaction, [removed])
            del model[removed]
        assert up(tree, transaction, b"", None, ALL) == sorted(model.items())


def test_the_empty_key_comes_first(tree: Tree, transaction: Transaction) -> None:
    tree.put_all(transaction, [(b"", b"nothing"), (b"\0", b"zero"), (b"a", b"letter")])
    assert tree.get(transaction, b"") == b"nothing"
    assert keys_up(tree, transaction, b"", None, ALL) == [b"", b"\0", b"a"]
    assert keys_up(tree, transaction, b"", b"\0", ALL) == [b""]
    assert keys_up(tree, transaction, b"", b"", ALL) == []
    assert keys_up(tree, transaction, b"\0", None, ALL) == [b"\0", b"a"]
    assert [key for key, _ in tree.descending(transaction, b"", None, ALL)] == [b"a", b"\0", b""]
    assert tree.descending(transaction, b"", b"\0", 1) == [(b"", b"nothing")]
    assert tree.descending(transaction, b"", b"", 1) == []
    tree.delete_all(transaction, [b""])
    assert tree.get(transaction, b"") is None
    assert keys_up(tree, transaction, b"", None, ALL) == [b"\0", b"a"]


def test_inverted_and_empty_ranges(tree: Tree, transaction: Transaction) -> None:
    long = b"m" * 700
    tree.put_all(transaction, [(b"", b""), (b"a", b""), (long, b""), (b"z", b"")])
    ranges = [(b"z", b"a"), (b"a", b"a"), (long, long), (long, long[:-1]), (long[:500], b""), (b"a", b"")]
    for start, stop in ranges:
        assert up(tree, transaction, start, stop, ALL) == []
        assert keys_up(tree, transaction, start, stop, ALL) == []
        assert tree.descending(transaction, start, stop, ALL) == []


def test_an_empty_tree(tree: Tree, transaction: Transaction) -> None:
    tree.put_all(transaction, [])
    tree.delete_all(transaction, [b"", b"a", b"a" * 2000])
    assert tree.get(transaction, b"") is None
    assert up(tree, transaction, b"", None, ALL) == []
    assert tree.descending(transaction, b"", None, ALL) == []
    assert tree.count(transaction) == 0
    assert tree.size_bytes(transaction) == 0


def test_keys_out_of_order_are_stored_all_the_same(tree: Tree, transaction: Transaction) -> None:
    items = [(b"z", b"1"), (b"a", b"2"), (b"m" * 900, b"3"), (b"", b"4"), (b"a", b"5")]
    tree.put_all(transaction, items)
    assert up(tree, transaction, b"", None, ALL) == sorted(dict(items).items())
    tree.delete_all(transaction, [key for key, _ in items])
    assert tree.size_bytes(transaction) == 0


def test_trees_of_one_environment_share_nothing(environment: lmdb.Environment) -> None:
    trees = [Tree(environment, name) for name in ("records", "index")]
    key = b"p" * 1700
    with environment.begin(write=True) as transaction:
        for tree in trees:
            tree.put_all(transaction, [(b"", b"1"), (b"a", b"2"), (key, b"3")])
        trees[0].delete_all(transaction, [b"", b"a", key])
    with environment.begin() as transaction:
        assert up(trees[0], transaction, b"", None, ALL) == []
        assert up(trees[1], transaction, b"", None, ALL) == [(b"", b"1"), (b"a", b"2"), (key, b"3")]


def test_a_tree_is_found_again(tmp_path: Path) -> None:
    items = [(b"", b"1"), (b"a", b"2"), (b"p" * 1700, b"3"), (KEY_64_KIB, b"4")]
    with open_environment(tmp_path) as environment:
        tree = Tree(environment, "records")
        with environment.begin(write=True) as transaction:
            tree.put_all(transaction, items)
    with open_environment(tmp_path) as environment:
        tree = Tree(environment, "records")
        with environment.begin(write=True) as transaction:
            tree.put_all(transaction, [(b"p" * 1701, b"5")])
            assert sorted([*items, (b"p" * 1701, b"5")]) == up(tree, transaction, b"", None, ALL)


def test_a_reader_keeps_its_state_while_nodes_come_and_go(environment: lmdb.Environment, tree: Tree) -> None:
    old = [(b"p" * 800, b"old"), (b"p" * 1800, b"old")]
    with environment.begin(write=True) as transaction:
        tree.put_all(transaction, old)
    with environment.begin() as reader:
        with environment.begin(write=True) as transaction:
            tree.delete_all(transaction, [key for key, _ in old])
            tree.put_all(transaction, [(b"q" * 1800, b"new")])
        assert up(tree, reader, b"", None, ALL) == old
    with environment.begin() as reader:
        assert up(tree, reader, b"", None, ALL) == [(b"q" * 1800, b"new")]


@pytest.mark.parametrize("length", [100, 1700], ids=["short", "long"])
def test_a_full_map_passes_through_and_spoils_nothing(tmp_path: Path, length: int) -> None:
    first = [(b"a" * length, b"1")]
    with open_environment(tmp_path, map_bytes=128 << 10) as environment:
        tree = Tree(environment, "records")
        with environment.begin(write=True) as transaction:
            tree.put_all(transaction, first)
        more = [(b"%05d" % place + b"b" * length, b"v" * 100) for place in range(5000)]
        with pytest.raises(lmdb.MapFullError), environment.begin(write=True) as transaction:
            tree.put_all(transaction, more)
        environment.set_mapsize(64 << 20)
        with environment.begin(write=True) as transaction:
            assert up(tree, transaction, b"", None, ALL) == first
            tree.put_all(transaction, more)
            assert up(tree, transaction, b"", None, ALL) == more + first
