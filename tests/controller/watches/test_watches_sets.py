"""Sets of names: their hash as recorded, their pages, and how they change."""

from __future__ import annotations

import pytest

from controller.watches import Diff, SnapshotPage, hash_of
from controller.watches.lives import is_same_life
from controller.watches.names import PAGE_BYTES_MAX, PAGE_NAMES_MAX, paged
from controller.watches.rolls import DIFFS_KEPT_MAX, Entry, Roll, diffs_of
from metastore.interface import Version
from support.vectors import cases

NOTHING: dict[str, str] = {}


def test_hashes_are_as_recorded() -> None:
    for case in cases("watch-hash"):
        assert hash_of(case["topics"]) == case["hash"], case


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "00000000"),
        (["topic://tenant/ns/t1"], "195271ae"),
        (["topic://t/ns/a", "topic://t/ns/b"], "0bddb902"),
        (["topic://t/ns/b", "topic://t/ns/a"], "0bddb902"),
        (["topic://t/ns/a-1", "topic://t/ns/a/x"], "2a3b0c9e"),
        (["123456789"], "839206e3"),
    ],
)
def test_hashes_of_small_sets(names: list[str], expected: str) -> None:
    assert hash_of(names) == expected


def test_a_page_has_so_many_names_and_no_more() -> None:
    names = [str(number) for number in range(2 * PAGE_NAMES_MAX + 1)]
    assert [len(page) for page in paged(names[:-1])] == [PAGE_NAMES_MAX, PAGE_NAMES_MAX]
    assert [len(page) for page in paged(names)] == [PAGE_NAMES_MAX, PAGE_NAMES_MAX, 1]
    assert paged([]) == [()]


def test_a_page_has_so_many_bytes_and_no_more() -> None:
    long = "é" * (PAGE_BYTES_MAX // 8)  # a quarter of a page
    assert [len(page) for page in paged([long] * 4)] == [4]
    assert [len(page) for page in paged([long] * 4 + ["x"])] == [4, 1]


def version(version_id: int, modifications: int = 0, created_ms: int = 0) -> Version:
    return Version(version_id, modifications, created_ms, created_ms)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (version(5), version(5), True),
        (version(5), version(6, 1), True),
        (version(5, 3), version(9, 4), True),
        (version(5), version(6), False),  # created anew in the same millisecond
        (version(5, 3), version(9, 3), False),
        (version(5), version(6, 1, 1), False),
    ],
)
def test_lives_are_told_apart(before: Version, after: Version, expected: bool) -> None:
    assert is_same_life(before, after) is expected


def entries(*names: str, version_id: int = 1) -> dict[str, Entry]:
    return {name: Entry(version(version_id), NOTHING) for name in names}


def test_a_set_and_its_changes() -> None:
    known = entries("a", "b")
    roll = Roll({}, known)
    assert roll.pages == (SnapshotPage(("a", "b"), True, True),)
    assert roll.hash == hash_of(["a", "b"])
    del known["a"]
    known |= entries("c")
    roll.update(["a", "b", "c"], known)
    assert (roll.next, roll.diff(0)) == (1, Diff(("c",), ("a",)))
    assert roll.pages == (SnapshotPage(("b", "c"), True, True),)
    assert roll.hash == hash_of(["b", "c"])


def test_what_comes_and_goes_before_it_is_told_is_not_told() -> None:
    roll = Roll({}, {})
    roll.update(["a"], {})
    assert roll.next == 0


def test_a_topic_that_is_created_anew_goes_and_comes() -> None:
    roll = Roll({}, entries("a"))
    roll.update(["a"], entries("a", version_id=2))
    assert roll.diff(0) == Diff(("a",), ("a",))


def test_a_topic_that_is_changed_is_the_same() -> None:
    roll = Roll({}, entries("a"))
    roll.update(["a"], {"a": Entry(version(2, 1), NOTHING)})
    roll.update(["a"], {"a": Entry(version(3, 2), {"x": "y"})})
    assert roll.next == 0
    roll.update(["a"], {"a": Entry(version(4, 2), NOTHING)})
    assert roll.diff(0) == Diff(("a",), ("a",))


def test_a_large_change_comes_in_parts_removals_first() -> None:
    gone = [f"a{number:05}" for number in range(PAGE_NAMES_MAX + 1)]
    new = [f"b{number:05}" for number in range(PAGE_NAMES_MAX)]
    told = diffs_of(new, gone)
    assert [(len(each.added), len(each.removed)) for each in told] == [(0, 1_000), (999, 1), (1, 0)]
    assert sorted(name for each in told for name in each.removed) == gone
    assert sorted(name for each in told for name in each.added) == new


def test_so_many_changes_are_kept_and_no_more() -> None:
    roll, known = Roll({}, {}), dict[str, Entry]()
    for number in range(DIFFS_KEPT_MAX + 1):
        known |= entries(str(number))
        roll.update([str(number)], known)
        assert roll.is_kept(0) == (number < DIFFS_KEPT_MAX)
    assert roll.diff(1) == Diff(("1",))
    assert roll.diff(DIFFS_KEPT_MAX) == Diff((str(DIFFS_KEPT_MAX),))


def test_filters_are_as_recorded() -> None:
    for case in cases("filters"):
        known = {name: Entry(version(1), properties) for name, properties in case["topics"].items()}
        for ask in case["asks"]:
            roll = Roll(ask["filters"], known)
            assert {name for page in roll.pages for name in page.topics} == set(ask["found"]), ask
