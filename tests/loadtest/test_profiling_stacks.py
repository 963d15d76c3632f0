"""Stacks of a profiler, added up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.profiling.stacks import name_of, parse, shares

MAIN = "main (/usr/lib/python3.11/asyncio/runners.py:12)"
SERVE = "serve (/x/metastore/server/serve.py:80)"
PUT = "put (/x/metastore/engine/tree.py:5)"
RAW = f"{MAIN};{SERVE};{PUT} 6\n{MAIN};{SERVE} 3\n{MAIN};{PUT};{PUT} 1\n"
FRAMES = st.sampled_from(["a (/x/txn/a.py:1)", "b (/x/txn/model/b.py:2)", "c (/lib/c.py:3)", "<lambda> (<string>:1)"])
STACKS = st.lists(st.tuples(st.lists(FRAMES, min_size=1, max_size=6), st.integers(1, 50)), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("put (/x/metastore/engine/tree.py:5)", "metastore.engine.tree.put"),
        ("Tree.put (metastore/engine/tree.py)", "metastore.engine.tree.Tree.put"),
        ("select (selectors.py:468)", "selectors.select"),
        ("thread (0x7F1)", "0x7F1.thread"),
        ("no frame", None),
    ],
)
def test_a_frame_has_a_name(frame: str, name: str | None) -> None:
    assert name_of(frame) == name


def test_parts_of_all_samples() -> None:
    found = {each.name: (each.own, each.within) for each in shares(parse(RAW))}
    assert found["metastore.engine.tree.put"] == (0.7, 0.7), "once for a stack in which it is twice"
    assert found["metastore.server.serve.serve"] == (0.3, 0.9)
    assert found["runners.main"] == (0.0, 1.0)
    by_package = {each.name: each.own for each in shares(parse(RAW), depth=2)}
    assert by_package["metastore.engine"] == 0.7


@given(STACKS)
def test_own_parts_add_up_and_none_is_more_than_the_whole(stacks: list[tuple[list[str], int]]) -> None:
    text = "".join(f"{';'.join(frames)} {times}\n" for frames, times in stacks)
    for depth in (None, 1, 2):
        found = shares(parse(text), depth)
        assert sum(each.own for each in found) == pytest.approx(1.0)
        assert all(0 <= each.own <= each.within <= 1 for each in found)
        assert [each.own for each in found] == sorted((each.own for each in found), reverse=True)
