"""Times, durations and names as the doctor prints and reads them."""

from __future__ import annotations

import io
import json
from argparse import ArgumentTypeError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txn.decoding.fields import TIME_MS_MAX
from txn.doctor.arguments import duration_ms
from txn.doctor.texts import NAMES_SHOWN_MAX, Duration, Moment, Section, duration_text, write_section


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1_000, "1.0s"),
        (59_999, "59.9s"),
        (60_000, "1m00s"),
        (3_599_999, "59m59s"),
        (3_600_000, "1h00m"),
        (86_399_999, "23h59m"),
        (86_400_000, "1d00h"),
        (-1_500, "-1.5s"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


@given(st.integers(-TIME_MS_MAX, TIME_MS_MAX))
def test_every_duration_has_a_text(time_ms: int) -> None:
    assert duration_text(time_ms)


def test_durations_are_read_as_they_are_written() -> None:
    assert duration_ms("1h30m") == 5_400_000
    assert duration_ms("0ms") == 0
    assert duration_ms("7d") == 7 * 86_400_000
    assert duration_ms("5") == 5_000
    for text in ("", "m", "5 m", "-1s", "1s2", "٣s"):
        with pytest.raises(ArgumentTypeError):
            duration_ms(text)


def test_a_row_for_people_and_for_programs() -> None:
    names = [f"name-{number}" for number in range(NAMES_SHOWN_MAX + 2)]
    row = {"at_ms": Moment(1_000), "for_ms": Duration(61_000), "names": names, "none": [], "text": "a\x1b[1m"}
    out = io.StringIO()
    write_section(Section("kind", [row], is_fields=True), out, as_json=False)
    assert out.getvalue().splitlines() == [
        "at     1970-01-01T00:00:01.000Z",
        "for    1m01s",
        "names  name-0, name-1, name-2, and 2 more",
        "none   -",
        "text   a\\x1b[1m",
    ]
    out = io.StringIO()
    write_section(Section("kind", [row]), out, as_json=True)
    assert json.loads(out.getvalue()) == {"type": "kind", **row}
