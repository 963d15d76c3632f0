"""Every hole of the design that ours comes from has a test of ours that is named after it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

HOLES = range(1, 23)
TESTS = Path(__file__).parents[1]
ABOUT_TRANSACTIONS = (
    TESTS / "txn",
    TESTS / "txn_histories",
    TESTS / "txn_scenarios",
    TESTS / "faults",
    TESTS / "controller" / "broker",
    TESTS / "controller" / "client",
)
"""Elsewhere the same letters count the holes of another design."""


def named_after(name: str) -> list[int]:
    """The holes that a test is named after: `test_h6_h7_names_…` after two."""
    prefix = re.match(r"test_((?:h\d+_)+)", name)
    return [] if prefix is None else [int(each) for each in re.findall(r"h(\d+)_", prefix[1])]


def test_every_hole_has_a_test_that_is_named_after_it() -> None:
    found: dict[int, list[str]] = defaultdict(list)
    for folder in ABOUT_TRANSACTIONS:
        for path in sorted(folder.rglob("test_*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    for hole in named_after(node.name):
                        found[hole].append(f"{path.relative_to(TESTS)}::{node.name}")
    assert sorted(found) == list(HOLES), {hole: found.get(hole) for hole in HOLES}


def test_a_name_may_be_after_several() -> None:
    assert named_after("test_h6_h17_names") == [6, 17]
    assert named_after("test_hosts_h1_go") == []
