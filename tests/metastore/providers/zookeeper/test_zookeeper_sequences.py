"""Which key a sequence generates, from those there are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.interface import InvalidRequest
from metastore.providers.zookeeper.sequences import NUMBER_MAX, greatest_of, next_key, numbers_of, prefixes_of

BUDGET = settings(deadline=None, database=None, derandomize=True)
NUMBERS = st.lists(st.integers(0, NUMBER_MAX), min_size=1, max_size=3)
PREFIX = st.sampled_from(["s", "s-1", "", "-", "a/s", f"s-{7:020d}"])


def numbered(prefix: str, numbers: list[int]) -> str:
    return prefix + "".join(f"-{number:020d}" for number in numbers)


@BUDGET
@given(PREFIX, NUMBERS)
def test_the_numbers_of_a_key(prefix: str, numbers: list[int]) -> None:
    key = numbered(prefix, numbers)
    assert numbers_of(prefix, key) == tuple(numbers)
    assert prefix in prefixes_of(key)
    assert all(numbers_of(each, key) for each in prefixes_of(key))


@pytest.mark.parametrize(
    "key",
    [
        *("s", "s-", "s-1", f"s{1:020d}", f"t-{1:020d}", f"s-{1:021d}", f"s-{1:020d}-", f"s-{1:020d}-x"),
        f"s-{NUMBER_MAX + 1}",
    ],
)
def test_keys_that_only_look_alike_have_none(key: str) -> None:
    assert numbers_of("s", key) == ()


@BUDGET
@given(PREFIX, st.lists(NUMBERS, max_size=6), st.lists(st.sampled_from(["s", "s-x", "s-1-2", "t"]), max_size=3))
def test_the_greatest_key_is_that_of_the_greatest_numbers(
    prefix: str, numbered_by: list[list[int]], others: list[str]
) -> None:
    keys = [numbered(prefix, numbers) for numbers in numbered_by]
    expected = numbered(prefix, max(numbered_by)) if numbered_by else None
    assert greatest_of(prefix, [*others, *keys]) == expected
    assert expected is None or max(keys) == expected


def test_each_number_is_increased_by_its_delta() -> None:
    assert next_key("s", None, [3]) == numbered("s", [3])
    assert next_key("s", numbered("s", [3]), [1, 6]) == numbered("s", [4, 6])
    assert next_key("s", numbered("s", [4, 6]), [1, 0]) == numbered("s", [5, 6])
    assert next_key("s", numbered("s", [NUMBER_MAX - 1]), [1]) == numbered("s", [NUMBER_MAX])


def test_a_sequence_may_be_exhausted() -> None:
    with pytest.raises(InvalidRequest, match="exhausted"):
        next_key("s", numbered("s", [NUMBER_MAX]), [1])


def test_no_number_may_be_left_out() -> None:
    with pytest.raises(InvalidRequest, match="too few"):
        next_key("s", numbered("s", [1, 1]), [1])
