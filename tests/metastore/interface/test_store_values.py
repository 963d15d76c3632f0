"""Values, ranges, checks and errors of the contract, without a store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore import interface
from metastore.engine.keys import key_order
from metastore.interface import (
    ABSENT,
    ALL,
    Abortable,
    Condition,
    Delete,
    Fatal,
    InvalidRequest,
    LimitExceeded,
    Put,
    Range,
    Retriable,
    StoreError,
    children_of,
    errors,
    exactly,
)
from metastore.interface.checks import (
    KEY_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
    VALUE_BYTES_MAX,
    VERSION_ID_MAX,
    check_delete_range,
    check_expected,
    check_key,
    check_range,
    check_sequence,
    check_text,
    check_transaction,
    check_value,
    shown,
)

KEYS = st.text(st.sampled_from("ab/\0é"), max_size=6)
ORDERS = st.sampled_from(["hierarchical", "natural"])


def holds(order: str, range: Range, key: str) -> bool:
    encode = key_order(order).encode
    start, end, place = (encode(each.encode()) for each in (range.start, range.end, key))
    return start <= place < end


@given(order=ORDERS, key=KEYS.filter(lambda key: not key.endswith("//")), other=KEYS)
def test_exactly_holds_one_key_in_either_order(order: str, key: str, other: str) -> None:
    assert holds(order, exactly(key), key)
    assert holds(order, exactly(key), other) == (key == other)


@given(path=KEYS.filter(lambda key: not key.endswith("/")), key=KEYS)
def test_children_are_those_one_level_below(path: str, key: str) -> None:
    name = key.removeprefix(path + "/")
    # A name may end with the slash of an empty child's children; those two are the bounds of the next level.
    is_child = key.startswith(path + "/") and "/" not in name
    if not key.endswith("//"):
        assert holds("hierarchical", children_of(path), key) == is_child


@pytest.mark.parametrize("make", [lambda: children_of("/a/"), lambda: exactly("/a//")])
def test_paths_that_bound_their_neighbours_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidRequest):
        make()


def test_ranges_show_their_bounds() -> None:
    assert str(Range("a", "b")) == "['a', 'b')"
    assert str(Range("a")) == "['a', end)"


def test_texts_are_bounded_by_their_bytes() -> None:
    assert check_text("key", "é" * (KEY_BYTES_MAX // 2)) == KEY_BYTES_MAX
    with pytest.raises(LimitExceeded, match="KEY_BYTES_MAX"):
        check_text("key", "é" * (KEY_BYTES_MAX // 2) + "x")
    with pytest.raises(InvalidRequest, match="UTF-8"):
        check_key("\udfff")
    with pytest.raises(InvalidRequest, match="partition key"):
        check_key("a", "\udfff")


def test_values_are_bounded() -> None:
    assert check_value("a", bytes(VALUE_BYTES_MAX)) == VALUE_BYTES_MAX
    with pytest.raises(LimitExceeded, match="VALUE_BYTES_MAX"):
        check_value("a", bytes(VALUE_BYTES_MAX + 1))
    with pytest.raises(InvalidRequest):
        check_value("a", bytearray(b"x"))  # type: ignore[arg-type]


@pytest.mark.parametrize(("order", "start", "end"), [("hierarchical", "/a/b", "z"), ("natural", "z", "/a/b")])
def test_ranges_are_inverted_by_the_stores_order(order: str, start: str, end: str) -> None:
    encode = key_order(order).encode
    check_range(Range(end, start), lambda key: encode(key.encode()))
    check_range(Range(start, start), lambda key: encode(key.encode()))
    check_range(Range(start), lambda key: encode(key.encode()))
    with pytest.raises(InvalidRequest, match="ends before it starts"):
        check_range(Range(start, end), lambda key: encode(key.encode()))


def test_only_a_range_with_an_end_is_deleted() -> None:
    check_delete_range(Range("", "b"))
    for range in (ALL, Range("a")):
        with pytest.raises(InvalidRequest, match="needs an end"):
            check_delete_range(range)


def test_expected_versions_are_those_that_a_record_can_have() -> None:
    for expected in (None, ABSENT, 0, VERSION_ID_MAX):
        check_expected("a", expected)
    for expected in (ABSENT - 1, VERSION_ID_MAX + 1, (1 << 64) - 1):
        with pytest.raises(InvalidRequest, match=f"'a' is {expected}"):
            check_expected("a", expected)


def test_a_sequence_has_room_for_its_longest_key() -> None:
    prefix = "é" * ((KEY_BYTES_MAX - 42) // 2)
    check_sequence(prefix, None, "p", [1, 1])
    with pytest.raises(LimitExceeded, match="KEY_BYTES_MAX"):
        check_sequence(prefix, None, "p", [1, 1, 1])


def test_one_operation_for_each_key_but_for_prefixes() -> None:
    put = Put("s", b"", sequence_deltas=(1,))
    check_transaction("p", [put, put, Put("s", b"")], [], False)
    with pytest.raises(InvalidRequest, match="two operations on 's'"):
        check_transaction("p", [put, Put("s", b""), Delete("s")], [], False)


def test_transactions_are_bounded_in_number_and_size() -> None:
    deletes = [Delete(f"{number:05d}") for number in range(TRANSACTION_OPERATIONS_MAX)]
    check_transaction("p", deletes, [], False)
    with pytest.raises(LimitExceeded, match="TRANSACTION_OPERATIONS_MAX"):
        check_transaction("p", deletes, [Condition("a", 1)], False)
    whole = [Put("a", bytes(TRANSACTION_BYTES_MAX - 1))]
    check_transaction("p", whole, [], False)
    with pytest.raises(LimitExceeded, match="TRANSACTION_BYTES_MAX"):
        check_transaction("p", whole, [Condition("a", 1)], False)


def test_long_keys_are_not_shown_at_any_length() -> None:
    assert shown("a") == "'a'"
    assert len(shown("a" * 10_000)) < 100


def error_classes() -> list[type[StoreError]]:
    return [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, StoreError)]


@pytest.mark.parametrize("error", error_classes(), ids=lambda error: error.__name__)
def test_every_error_is_on_one_branch_and_public(error: type[StoreError]) -> None:
    branches = [branch for branch in (Retriable, Abortable, Fatal) if issubclass(error, branch)]
    assert len(branches) == (0 if error is StoreError else 1)
    assert getattr(interface, error.__name__) is error
    assert f" {error.__name__} " in f" {errors.__doc__} ".replace("\n", " ")


def test_the_public_names_are_there() -> None:
    assert len(set(interface.__all__)) == len(interface.__all__)
    assert all(hasattr(interface, name) for name in interface.__all__)
