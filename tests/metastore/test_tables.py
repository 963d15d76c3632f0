"""What commands print: columns for people, JSON lines for programs."""

from __future__ import annotations

import base64
import io
import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.tables import MEASURED_ROWS, Cell, Row, cell_text, moment_text, write_fields, write_rows

CELLS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary())


def printed(columns: list[str], rows: list[Row], **options: bool) -> str:
    out = io.StringIO()
    write_rows(columns, rows, out, **options)
    return out.getvalue()


def test_columns_are_aligned_numbers_to_the_right() -> None:
    rows: list[Row] = [
        {"key": "/a", "version": 7, "ephemeral": True},
        {"key": "/long/key", "version": 12345678, "ephemeral": None},
    ]
    assert printed(["key", "version", "ephemeral"], rows) == (
        "KEY         VERSION  EPHEMERAL\n/a                7  yes\n/long/key  12345678  -\n"
    )


def test_no_rows_leave_the_headings() -> None:
    assert printed(["key", "value"], []) == "KEY  VALUE\n"


def test_only_named_columns_are_printed() -> None:
    rows: list[Row] = [{"key": "/a", "value": b"1"}]
    assert printed(["key"], rows) == "KEY\n/a\n"
    assert printed(["key"], rows, as_json=True) == '{"key": "/a"}\n'


def test_a_late_wide_cell_pushes_only_its_own_row_aside() -> None:
    rows: list[Row] = [{"key": "k", "value": "v"} for _ in range(MEASURED_ROWS)]
    rows.append({"key": "wide key", "value": "v"})
    lines = printed(["key", "value"], rows).splitlines()
    assert set(lines[1:-1]) == {"k    v"}
    assert lines[-1] == "wide key  v"


@pytest.mark.parametrize("as_json", [True, False])
def test_live_rows_are_printed_as_they_come(as_json: bool) -> None:
    out = io.StringIO()
    seen: list[int] = []

    def arriving() -> Iterator[Row]:
        for number in range(3):
            seen.append(out.getvalue().count("\n"))
            yield {"number": number}

    write_rows(["number"], arriving(), out, as_json=as_json, live=True)
    assert seen == ([0, 1, 2] if as_json else [1, 2, 3])


def test_endless_rows_are_never_all_held() -> None:
    taken = 0

    def endless() -> Iterator[Row]:
        nonlocal taken
        for taken in itertools.count(1):
            yield {"number": taken}

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if self.tell() > 1000:
                raise BrokenPipeError
            return super().write(text)

    with pytest.raises(BrokenPipeError):
        write_rows(["number"], endless(), Full())
    assert taken <= 1000


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (-3, "-3"),
        (1.5, "1.5"),
        ("grün", "grün"),
        (b"gr\xc3\xbcn", "grün"),
        (b"\xff\x00a", "\\xff\\x00a"),
        ("two\nlines\ttab", "two\\nlines\\ttab"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\ud800", "\\ud800"),
    ],
)
def test_cells_for_people(cell: Cell, text: str) -> None:
    assert cell_text(cell) == text


@given(CELLS)
def test_a_cell_is_one_printable_line(cell: Cell) -> None:
    assert cell_text(cell).isprintable()


@given(st.lists(CELLS, min_size=1, max_size=3))
def test_json_loses_nothing(cells: list[Cell]) -> None:
    row: Row = {f"c{index}": cell for index, cell in enumerate(cells)}
    read = json.loads(printed(list(row), [row], as_json=True))
    assert list(read) == list(row)
    for name, cell in row.items():
        value = read[name]
        if isinstance(cell, bytes):
            cell_read = base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()
            assert cell_read == cell
        else:
            assert value == cell
            assert type(value) is type(cell)


def test_one_row_is_printed_as_its_fields() -> None:
    out = io.StringIO()
    write_fields({"key": "/a", "version": 3, "value": b"x"}, out)
    assert out.getvalue() == "key      /a\nversion  3\nvalue    x\n"


def test_one_row_as_json_is_one_object() -> None:
    out = io.StringIO()
    write_fields({"key": "/a", "value": b"\xff"}, out, as_json=True)
    assert json.loads(out.getvalue()) == {"key": "/a", "value": {"base64": "/w=="}}


def test_times_are_in_utc_and_to_the_millisecond() -> None:
    assert moment_text(0) == "1970-01-01T00:00:00.000Z"
    assert moment_text(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"


@given(st.integers(-(2**70), 2**70))
def test_every_time_has_a_text(time_ms: int) -> None:
    assert moment_text(time_ms).endswith(("Z", f"{time_ms} ms"))
    assert moment_text(2**64 - 1) == f"{2**64 - 1} ms"
