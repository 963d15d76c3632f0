"""Every hole of Pulsar's scalable topics, and every table of what its tests assert, has a test of ours; and where."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from test_topic_rows import TABLES as ROWS
from topic_row_places import COUNTS, PLACES

HOLES = range(1, 22)
TESTS = Path(__file__).parents[2]
ABOUT_TOPICS = (
    *(TESTS / "controller" / room for room in ("assignment", "autoscale", "layout", "topics", "operations")),
    *(TESTS / "controller" / room for room in ("subscriptions", "watches", "leading", "holes", "admin")),
    *(TESTS / "controller" / room for room in ("broker_topics", "client_topics", "client_consumers")),
    *(TESTS / room for room in ("topics_simulation", "topics_end_to_end")),
)
"""Elsewhere the same letters count the holes of another design."""

TABLES = {
    "V1 ranges and names": (
        "layout/test_layout_names.py::test_names_are_read_as_recorded",
        "layout/test_layout_vectors.py::test_ranges_are_as_recorded",
        "layout/test_layout_names.py::test_what_is_no_name_is_refused_with_what_is_expected",
    ),
    "V2 first layouts": ("layout/test_layout_vectors.py::test_first_layouts_are_as_recorded",),
    "V3 hashes and routing": (
        "layout/test_layout_vectors.py::test_keys_are_hashed_as_recorded",
        "layout/test_layout_vectors.py::test_messages_are_routed_as_recorded",
    ),
    "V4 layouts": (
        "holes/test_topic_layout_table.py::test_v4_a_split",
        "layout/test_layout_vectors.py::test_layouts_change_as_recorded",
    ),
    "V5 buckets": (
        "layout/test_layout_vectors.py::test_buckets_are_as_recorded",
        "layout/test_layout_vectors.py::test_buckets_are_spread_over_consumers_as_recorded",
    ),
    "V6 assignments": (
        "assignment/test_assignment.py::test_v6_four_segments_and_more_and_more_consumers",
        "subscriptions/test_sessions_vectors.py::test_divisions_and_pushes_are_as_recorded_where_the_rules_coincide",
    ),
    "V8 configuration": ("autoscale/test_autoscale_config.py::test_overrides_come_out_as_recorded",),
    "V9 decisions": (
        "autoscale/test_autoscale_decisions.py::test_v9_one_step_at_a_time",
        "autoscale/test_autoscale_decisions.py::test_decisions_are_as_recorded",
    ),
    "V11 loads": ("leading/test_leading_loads.py::test_only_what_is_different_enough_is_written",),
    "V12 namespaces": (
        "watches/test_watches_sets.py::test_hashes_are_as_recorded",
        "watches/test_watches_namespaces.py::test_a_set_is_followed_from_its_beginning",
        "topics/test_topic_records.py::test_topics_are_found_by_properties_as_recorded",
    ),
}
"""Where each table of pure values is tested; of the others each row has its place, in topic_row_places.py."""
ROW_COUNTS = {"V1": 23, "V2": 10, "V3": 20, "V5": 11, "V6": 8, "V8": 2, "V9": 5, "V11": 6}
"""How many rows the pure ones have, but for those that other tests of theirs name."""


def named_after(name: str) -> set[int]:
    """The holes that a test is named after: `test_h6_…`, `…_h18`."""
    return {int(each) for each in re.findall(r"_h(\d+)(?=_|$)", name)}


@cache
def cases_in(path: Path) -> list[str]:
    """The tests of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    return [each.name for each in functions if each.name.startswith("test_")]


def files() -> Iterator[Path]:
    for folder in ABOUT_TOPICS:
        yield from sorted(folder.rglob("test_*.py"))


@pytest.mark.parametrize("hole", HOLES)
def test_every_hole_has_a_test_that_is_named_after_it(hole: int) -> None:
    found = [
        f"{path.relative_to(TESTS)}::{name}" for path in files() for name in cases_in(path) if hole in named_after(name)
    ]
    assert found, f"H{hole}"


def check_place(place: str) -> None:
    """There is such a test, and such a case of it."""
    path, _, test = place.partition("::")
    name, _, case = test.removesuffix("]").partition("[")
    assert name in cases_in(TESTS / "controller" / path), place
    text = (TESTS / "controller" / path).read_text(encoding="utf-8")
    assert not case or f'"{case}":' in text or f"def {case}(" in text, place


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_its_tests(table: str) -> None:
    for place in TABLES[table]:
        check_place(place)


@pytest.mark.parametrize(("table", "row"), [(table, row) for table, rows in PLACES.items() for row in rows])
def test_every_row_has_its_tests(table: str, row: str) -> None:
    assert PLACES[table][row]
    for place in PLACES[table][row]:
        check_place(place)


def test_no_table_is_left_out() -> None:
    assert {*(each.split()[0] for each in TABLES), *PLACES} == {f"V{number}" for number in range(1, 18)}


def test_no_row_is_left_out() -> None:
    assert {table: len(rows) for table, rows in ROWS.items()} == ROW_COUNTS
    assert {table: len(rows) for table, rows in PLACES.items()} == COUNTS


def test_a_place_that_is_none_is_found_out() -> None:
    for place in ("layout/test_layout_names.py::test_nothing", "leading/test_leading_rows.py::test_v14[nothing]"):
        with pytest.raises(AssertionError):
            check_place(place)


def test_what_a_test_is_named_after() -> None:
    assert named_after("test_h6_h7_names") == {6, 7}
    assert named_after("test_a_queue_h4") == {4}
    assert named_after("test_hosts_h1go_there") == set()
