"""Texts as names of znodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.providers.zookeeper.layout import (
    Identity,
    Layout,
    directory_of,
    identity_of,
    session_id_of,
    session_name,
)
from metastore.providers.zookeeper.names import NAME_CHARACTERS_MAX, is_digest, name_of, parts_of

BUDGET = settings(deadline=None, database=None, derandomize=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
AWKWARD = ["", ".", "..", "/", "\0", "@", "%", "%40", "=", "#", "zookeeper", "é", "\U0010ffff", " ", "a@b", "\ufffe"]


@BUDGET
@given(st.lists(TEXT | st.sampled_from(AWKWARD), min_size=1, max_size=3))
def test_a_readable_name_says_what_it_was_made_of(parts: list[str]) -> None:
    name = name_of(*parts)
    if not is_digest(name):
        assert parts_of(name) == tuple(parts)


@BUDGET
@given(st.lists(TEXT | st.sampled_from(AWKWARD), min_size=1, max_size=3))
def test_every_name_is_one_that_zookeeper_takes(parts: list[str]) -> None:
    name = name_of(*parts)
    assert name.isascii()
    assert name.isprintable()
    assert "/" not in name
    assert name[0] in "=#"
    assert len(name) <= NAME_CHARACTERS_MAX


@BUDGET
@given(st.lists(st.lists(TEXT | st.sampled_from(AWKWARD), min_size=1, max_size=3), max_size=8))
def test_different_parts_have_different_names(parts: list[list[str]]) -> None:
    assert len({name_of(*each) for each in parts}) == len({tuple(each) for each in parts})


def test_a_name_becomes_a_digest_beyond_the_limit() -> None:
    longest = "a" * (NAME_CHARACTERS_MAX - 1)
    assert parts_of(name_of(longest)) == (longest,)
    assert is_digest(name_of(longest + "a"))
    assert name_of(longest + "a") != name_of(longest + "b")


def test_the_spots_of_a_record() -> None:
    layout = Layout("/r")
    record = layout.record(Identity("a/b/c"))
    assert record.path == "/r/records/=a%2Fb%2F/=c"
    assert layout.record(Identity("c", "p")).path == "/r/records/=/=c@p"
    entry = layout.index_entry("i", "x/y", Identity("a/b", "p"))
    assert entry.path == "/r/indexes/=i/=x%2F/=y@a%2Fb@p"
    assert list(entry.paths()) == [entry.path, "/r/indexes/=i", "/r/indexes/=i/=x%2F"]
    assert layout.owned(255, Identity("k")).path == "/r/owners/ff/=k"


def test_digests_come_with_what_they_stand_for() -> None:
    key = "d" * 500 + "/" + "l" * 500
    entry = Layout("/r").index_entry("i" * 500, key, Identity("k"))
    index, directory = entry.directories
    assert index.meaning.decode() == f'["{"i" * 500}"]'
    assert directory.meaning.decode() == f'["{directory_of(key)}"]'
    assert entry.meaning.decode() == f'["{"l" * 500}", "k"]'


def test_a_record_lives_in_the_partition_of_its_key_unless_another_is_named() -> None:
    assert identity_of("k", "k") == identity_of("k", None) == Identity("k")
    assert identity_of("k", "k").home == "k"
    assert identity_of("k", "").home == ""


@pytest.mark.parametrize("session_id", [0, 1, (1 << 63) - 1, -1, -(1 << 63)])
def test_session_ids_have_names(session_id: int) -> None:
    assert session_id_of(session_name(session_id)) == session_id
    assert "-" not in session_name(session_id)
