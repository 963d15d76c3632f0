"""How commands print rows: aligned columns for people, one JSON object per line for programs.

Output may be long or never end, so rows are never all held: the columns of a table are as wide as the
headings and the first rows ask for, and a later, wider cell pushes its own row aside. What a terminal would
obey instead of show (control characters, escapes) is printed escaped; JSON is lossless.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TextIO

Cell = str | bytes | int | float | bool | None
Row = Mapping[str, Cell]

MEASURED_ROWS = 200
COLUMN_GAP = "  "


def write_rows(
    columns: Sequence[str], rows: Iterable[Row], out: TextIO, *, as_json: bool = False, live: bool = False
) -> None:
    """Prints rows under their headings, or as JSON lines.

    `live` is for rows that arrive over time: each is printed as it comes, so only headings are measured.
    """
    if as_json:
        for row in rows:
            print(json.dumps({column: _json_value(row[column]) for column in columns}), file=out, flush=live)
        return
    remaining = iter(rows)
    measured = [] if live else list(itertools.islice(remaining, MEASURED_ROWS))
    texts = [[cell_text(row[column]) for column in columns] for row in measured]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    numeric = [bool(measured) and all(_is_number(row[column]) for row in measured) for column in columns]
    print(_line([column.upper() for column in columns], widths, numeric), file=out, flush=live)
    for text in itertools.chain(texts, ([cell_text(row[column]) for column in columns] for row in remaining)):
        print(_line(text, widths, numeric), file=out, flush=live)


def write_fields(row: Row, out: TextIO, *, as_json: bool = False) -> None:
    """Prints one row as a list of its fields, or as one JSON object."""
    if as_json:
        print(json.dumps({name: _json_value(cell) for name, cell in row.items()}), file=out)
        return
    width = max((len(name) for name in row), default=0)
    for name, cell in row.items():
        print(f"{name:{width}}{COLUMN_GAP}{cell_text(cell)}", file=out)


def cell_text(cell: Cell) -> str:
    """One cell for people, on one line; nothing in it is obeyed by a terminal."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(cell))


def moment_text(time_ms: int) -> str:
    """A time as RFC 3339 has it, in UTC; the number itself if no calendar has it."""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


def _json_value(cell: Cell) -> object:
    """Bytes become text where they are UTF-8, else an object that says how they are written."""
    if not isinstance(cell, bytes):
        return cell
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(cell).decode()}


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _line(texts: Sequence[str], widths: Sequence[int], right_aligned: Sequence[bool]) -> str:
    cells = zip(texts, widths, right_aligned, strict=True)
    padded = (text.rjust(width) if right else text.ljust(width) for text, width, right in cells)
    return COLUMN_GAP.join(padded).rstrip()
