"""Tokens of watches: they come back as they were made, and are refused where they do not belong."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.interface import ALL, InvalidToken, Range
from metastore.providers.tokens import TokenForm

FORM = TokenForm("store", Range("a", "b"), None, None, 2)
OFFSETS = st.lists(st.integers(0, (1 << 63) - 1), min_size=2, max_size=2)


@settings(deadline=None, database=None, derandomize=True)
@given(OFFSETS)
def test_a_token_says_where_to_resume(offsets: list[int]) -> None:
    token = FORM.make(offsets)
    assert FORM.read(token) == offsets
    assert token.isascii()
    assert not set(token) & set("+/= &?#")


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (TokenForm("another", Range("a", "b"), None, None, 2), "another store"),
        (TokenForm("store", Range("a", "c"), None, None, 2), "another watch"),
        (TokenForm("store", Range("ab"), None, None, 2), "another watch"),
        (TokenForm("store", Range("a", "b"), "", None, 2), "another watch"),
        (TokenForm("store", Range("a", "b"), "i", None, 2), "another watch"),
        (TokenForm("store", Range("a", "b"), None, "i", 2), "another watch"),
        (TokenForm("store", Range("a", "b"), None, None, 3), "2 shards"),
    ],
)
def test_a_token_of_something_else_is_refused(other: TokenForm, complaint: str) -> None:
    with pytest.raises(InvalidToken, match=complaint):
        other.read(FORM.make([1, 2]))


@settings(deadline=None, database=None, derandomize=True, max_examples=300)
@given(st.text(max_size=100))
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken):
        FORM.read(text)


def test_a_token_that_was_changed_is_refused() -> None:
    token = FORM.make([1, 2])
    body = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for place in range(len(body)):
        changed = bytearray(body)
        changed[place] ^= 1
        with pytest.raises(InvalidToken):
            FORM.read(base64.urlsafe_b64encode(changed).decode().rstrip("="))
    for length in range(len(token)):
        with pytest.raises(InvalidToken):
            FORM.read(token[:length])


def test_everything_may_be_watched() -> None:
    form = TokenForm("store", ALL, None, None, 1)
    assert form.read(form.make([7])) == [7]
