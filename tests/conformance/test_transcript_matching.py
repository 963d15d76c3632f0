"""The judge of recorded answers: a right answer has no difference, a wrong one has its own."""

from __future__ import annotations

from typing import Any

import pytest

from support.transcripts.matching import Matcher, shown
from support.transcripts.messages import BadRecording

NOW_MS = 1_700_000_000_000


def matcher(**variables: Any) -> Matcher:
    made = Matcher(now_ms=lambda: NOW_MS)
    made.variables.update(variables)
    return made


RIGHT: list[tuple[str, Any, Any]] = [
    ("number", 3, 3),
    ("enum", "OK", "OK"),
    ("text", "ä", "ä".encode()),
    ("text in hex", {"hex": "ff00"}, b"\xff\x00"),
    ("text that repeats", {"concat": ["a", {"repeat": ["bc", 2]}]}, b"abcbc"),
    ("message", {"a": 1, "b": "x"}, {"b": b"x", "a": 1}),
    ("list", [1, {"a": "x"}], [1, {"a": b"x"}]),
    ("bound number", {"$bind": "v9", "is": "number"}, 0),
    ("bound text", {"$bind": "k"}, b"anything"),
    ("bound time", {"$bind": "t9"}, NOW_MS + 5),
    ("reference", {"$ref": "v"}, 7),
    ("reference with a distance", {"$ref": "v", "plus": 2}, 9),
    ("reference to a text", {"$ref": "key"}, b"k"),
    ("greater number", {"$above": "v"}, 8),
    ("any time", {"$any": "timestamp_ms"}, NOW_MS),
    ("any number", {"$any": "number"}, -1),
    ("any text", {"$any": "text"}, b""),
    ("anything", {"$any": "anything"}, {"a": 1}),
    ("empty value", {"a": {"$empty": True}}, {"a": b""}),
    ("absent value", {"a": {"$empty": True}}, {}),
    ("second choice", {"$one_of": [1, 2]}, 2),
    ("choice of nothing", {"a": {"$one_of": ["x", {"$empty": True}]}}, {}),
    ("address", {"$authority": True}, b"localhost:6648"),
    ("address of version 6", {"$authority": True}, b"[::1]:6648"),
]

WRONG: list[tuple[str, Any, Any]] = [
    ("number", 3, 4),
    ("a truth for a number", 1, True),
    ("number for a text", "3", 3),
    ("enum", "OK", "KEY_NOT_FOUND"),
    ("text", "a", b"b"),
    ("text for a number", 3, b"3"),
    ("text in hex", {"hex": "ff00"}, b"\xff"),
    ("field", {"a": 1}, {"a": 2}),
    ("missing field", {"a": 1}, {}),
    ("field too many", {"a": 1}, {"a": 1, "b": b""}),
    ("message for a list", [1], {"a": 1}),
    ("item", [1, 2], [1, 3]),
    ("missing item", [1, 2], [1]),
    ("item too many", [1], [1, 2]),
    ("bound text for a number", {"$bind": "v9", "is": "number"}, b"0"),
    ("bound truth for a number", {"$bind": "v9", "is": "number"}, True),
    ("bound time of long ago", {"$bind": "t9"}, 12),
    ("reference", {"$ref": "v"}, 8),
    ("reference with a distance", {"$ref": "v", "plus": 2}, 7),
    ("reference to a text", {"$ref": "key"}, b"l"),
    ("reference of another kind", {"$ref": "one"}, True),
    ("equal number", {"$above": "v"}, 7),
    ("smaller number", {"$above": "v"}, 6),
    ("text for a greater number", {"$above": "v"}, b"8"),
    ("a time in seconds", {"$any": "timestamp_ms"}, NOW_MS // 1000),
    ("text for a time", {"$any": "timestamp_ms"}, b"now"),
    ("text for any number", {"$any": "number"}, b"1"),
    ("number for any text", {"$any": "text"}, 1),
    ("value that is not empty", {"a": {"$empty": True}}, {"a": b"x"}),
    ("number for an empty value", {"a": {"$empty": True}}, {"a": 0}),
    ("absent although only a value may be", {"a": {"$any": "text"}}, {}),
    ("no choice", {"$one_of": [1, 2]}, 3),
    ("address without port", {"$authority": True}, b"localhost"),
    ("address with a scheme", {"$authority": True}, b"tls://localhost:6648"),
    ("no address", {"$authority": True}, b""),
]


@pytest.mark.parametrize(("expected", "actual"), [case[1:] for case in RIGHT], ids=[case[0] for case in RIGHT])
def test_a_right_answer_has_no_differences(expected: Any, actual: Any) -> None:
    assert matcher(v=7, one=1, key=b"k").differences(expected, actual, "at") == []


@pytest.mark.parametrize(("expected", "actual"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_answer_has_one_difference(expected: Any, actual: Any) -> None:
    (difference,) = matcher(v=7, one=1, key=b"k").differences(expected, actual, "at")
    assert difference.startswith("at")
    assert "expected" in difference


def test_a_difference_names_its_place_and_both_values() -> None:
    expected = {"puts": [{"status": "OK"}, {"version": {"version_id": {"$ref": "v", "plus": 1}}}]}
    actual = {"puts": [{"status": "OK"}, {"version": {"version_id": 3}}]}
    assert matcher(v=7).differences(expected, actual, "receive") == [
        'receive.puts[1].version.version_id: expected {"$ref": "v", "plus": 1} = 8, got 3'
    ]


def test_every_difference_is_told() -> None:
    differences = matcher().differences({"a": 1, "b": 2, "c": 3}, {"a": 9, "c": 3, "d": 4}, "at")
    assert [line.partition(":")[0] for line in differences] == ["at.a", "at.b", "at.d"]


def test_a_bound_value_has_to_come_again() -> None:
    judge = matcher()
    assert not judge.differences([{"$bind": "v0"}, {"$ref": "v0"}], [5, 5], "at")
    assert judge.differences([{"$bind": "v0"}, {"$ref": "v0"}], [5, 6], "at")


def test_a_greater_number_may_be_bound() -> None:
    judge = matcher(v0=5)
    assert not judge.differences({"$above": "v0", "bind": "v1"}, 9, "at")
    assert judge.variables["v1"] == 9


def test_a_choice_binds_only_what_the_right_one_binds() -> None:
    judge = matcher()
    choices = {"$one_of": [{"a": {"$bind": "x"}, "b": 1}, {"a": {"$bind": "y"}, "b": 2}]}
    assert not judge.differences(choices, {"a": b"v", "b": 2}, "at")
    assert judge.variables == {"y": b"v"}


def test_a_reference_to_nothing_is_a_fault_of_the_recording() -> None:
    with pytest.raises(BadRecording, match="never bound"):
        matcher().differences({"$ref": "v"}, 1, "at")


def test_an_unknown_matcher_is_a_fault_of_the_recording() -> None:
    with pytest.raises(BadRecording, match="unknown matcher"):
        matcher().differences({"$like": "v"}, 1, "at")


OK = {"code": "OK", "message": b"", "details": []}
GONE = {
    "code": "NOT_FOUND",
    "message": b"oxia: session not found",
    "details": [{"reason": b"SESSION_NOT_FOUND", "domain": b"oxia.io", "metadata": {}}],
}
EXPECTED_GONE = {
    "code": "NOT_FOUND",
    "message": "oxia: session not found",
    "details": [{"reason": "SESSION_NOT_FOUND", "domain": "oxia.io", "metadata": {}}],
}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (None, OK),
        (EXPECTED_GONE, GONE),
        ({"code": "NOT_FOUND"}, GONE),
        ({"code": "NOT_FOUND", "message": {"$any": "text"}}, GONE),
        ({"code": "UNKNOWN", "message": "else", "also": ["INTERNAL", "NOT_FOUND"]}, GONE),
    ],
)
def test_a_right_status_has_no_differences(expected: dict[str, Any] | None, actual: dict[str, Any]) -> None:
    assert matcher().status_differences(expected, actual) == []


@pytest.mark.parametrize(
    ("expected", "actual", "place"),
    [
        (None, GONE, "status.code"),
        (EXPECTED_GONE, OK, "status.code"),
        (EXPECTED_GONE, {**GONE, "message": b"session not found"}, "status.message"),
        (EXPECTED_GONE, {**GONE, "details": []}, "status.details"),
        ({"code": "UNKNOWN", "also": ["INTERNAL"]}, GONE, "status.code"),
    ],
)
def test_a_wrong_status_is_told(expected: dict[str, Any] | None, actual: dict[str, Any], place: str) -> None:
    differences = matcher().status_differences(expected, actual)
    assert differences
    assert differences[0].startswith(place)


def test_long_values_are_cut_for_people() -> None:
    text = shown({"key": b"x" * 1000, "raw": b"\xff"})
    assert len(text) == 160
    assert text.endswith("…")
    assert shown(b"\xff") == '{"hex": "ff"}'
