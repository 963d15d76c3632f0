"""Times, durations and rows as they are printed: for people in words, for programs as numbers of milliseconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from metastore.tables import Cell, cell_text, moment_text, write_fields, write_rows

MS_SUFFIX = "_ms"
NAMES_SHOWN_MAX = 3
"""Names in one cell for people; programs get them all."""


class Moment(int):
    """Milliseconds since the epoch."""


class Duration(int):
    """Milliseconds."""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one kind. Programs get each as an object with its `type`."""

    kind: str
    rows: Sequence[Mapping[str, object]]
    title: str = ""
    """For people, above a table that is not the first thing they read."""
    is_fields: bool = False
    """For people a list of fields, not a table."""
    empty: str = ""
    """For people, where there are no rows."""


def duration_text(duration_ms: int) -> str:
    """A duration in its two greatest units: 350ms, 12.3s, 5m12s, 2h05m, 3d04h."""
    sign, left_ms = ("-", -duration_ms) if duration_ms < 0 else ("", duration_ms)
    if left_ms < 1_000:
        return f"{sign}{left_ms}ms"
    if left_ms < 60_000:
        return f"{sign}{left_ms // 1000}.{left_ms % 1000 // 100}s"
    seconds = left_ms // 1000
    if seconds < 3_600:
        return f"{sign}{seconds // 60}m{seconds % 60:02d}s"
    if seconds < 86_400:
        return f"{sign}{seconds // 3600}h{seconds % 3600 // 60:02d}m"
    return f"{sign}{seconds // 86_400}d{seconds % 86_400 // 3600:02d}h"


def write_section(section: Section, out: TextIO, *, as_json: bool) -> None:
    """Prints the rows of a section."""
    if as_json:
        for row in section.rows:
            print(json.dumps({"type": section.kind, **row}), file=out, flush=True)
        return
    if section.title and (section.rows or section.empty):
        print(f"\n{section.title}", file=out)
    if not section.rows:
        if section.empty:
            print(section.empty, file=out)
        return
    rows = [{_heading(name): _cell(value) for name, value in row.items()} for row in section.rows]
    if section.is_fields:
        for row in rows:
            write_fields(row, out)
    else:
        write_rows(list(rows[0]), rows, out)


def line(text: str) -> str:
    """A sentence that may quote names from records: nothing in it is obeyed by a terminal."""
    return cell_text(text)


def _heading(name: str) -> str:
    return name.removesuffix(MS_SUFFIX)


def _cell(value: object) -> Cell:
    match value:
        case Moment():
            return moment_text(value)
        case Duration():
            return duration_text(value)
        case None | str() | int() | float():
            return value
        case list() | tuple():
            names = [str(name) for name in value[:NAMES_SHOWN_MAX]]
            more = len(value) - len(names)
            return (", ".join(names) + (f", and {more} more" if more else "")) or None
    return str(value)
