"""What the command line shows: times, versions, values, and rows that come over time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from metastore.interface import Record, Version
from metastore.tables import COLUMN_GAP, Cell, Row, cell_text, moment_text, write_rows

VERSION_COLUMNS = (
    "version_id",
    "modifications_count",
    "created_timestamp",
    "modified_timestamp",
    "ephemeral",
    "session_id",
    "client_identity",
)
HEX_LINE_BYTES = 16
NOT_ESCAPED = "\n\t"


class LiveRows:
    """Rows that are printed as they come.

    For people, columns are as wide as cells of their kind usually are, since there is none yet to measure.
    """

    def __init__(self, columns: Mapping[str, int], as_json: bool) -> None:
        self._widths = {column: max(width, len(column)) for column, width in columns.items()}
        self._as_json = as_json
        if not as_json:
            self._print([column.upper() for column in columns])

    def add(self, row: Row) -> None:
        """Prints one."""
        if self._as_json:
            write_rows(list(self._widths), [row], sys.stdout, as_json=True, live=True)
        else:
            self._print([cell_text(row[column]) for column in self._widths])

    def _print(self, texts: Iterable[str]) -> None:
        cells = (text.ljust(width) for text, width in zip(texts, self._widths.values(), strict=True))
        print(COLUMN_GAP.join(cells).rstrip(), flush=True)


def version_cells(version: Version) -> dict[str, Cell]:
    """A version under the names that Oxia's own tool has for its parts."""
    return {
        "version_id": version.version_id,
        "modifications_count": version.modifications,
        "created_timestamp": moment_text(version.created_ms),
        "modified_timestamp": moment_text(version.modified_ms),
        "ephemeral": version.is_ephemeral,
        "session_id": version.session_id,
        "client_identity": version.identity,
    }


def value_cell(record: Record | None, as_hex: bool) -> Cell:
    """A record's value; none where there is no record."""
    if record is None or record.value is None:
        return None
    return record.value.hex() if as_hex else record.value


def record_cells(record: Record, as_hex: bool) -> dict[str, Cell]:
    """All of a record in one row."""
    cells: dict[str, Cell] = {"key": record.key, "value": value_cell(record, as_hex)}
    if record.secondary_key is not None:
        cells["secondary_key"] = record.secondary_key
    return cells | version_cells(record.version)


def harmless(value: bytes) -> str:
    """Bytes as text for a terminal: line breaks and tabs as they are, all else that it would obey escaped."""
    text = value.decode("utf-8", "backslashreplace")
    return "".join(
        character
        if character.isprintable() or character in NOT_ESCAPED
        else character.encode("unicode_escape").decode()
        for character in text
    )


def hex_dump(value: bytes) -> str:
    """Lines of offset, bytes and text."""
    lines = []
    for offset in range(0, len(value), HEX_LINE_BYTES):
        part = value[offset : offset + HEX_LINE_BYTES]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{offset:08x}  {part.hex(' '):{3 * HEX_LINE_BYTES - 1}}  |{text}|\n")
    return "".join(lines)
