"""What the command line shows: times, versions, values, and rows that come over time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from metastore.client.values import Record, Version
from metastore.tables import Cell, Row, write_rows

HEX_LINE_BYTES = 16
NOT_ESCAPED = "\n\t"


def write_live_rows(columns: Mapping[str, int], rows: Iterable[Row], as_json: bool) -> None:
    """Prints rows as they come.

    For people, headings are as wide as cells of their kind usually are, since there is none yet to measure.
    """
    if as_json:
        write_rows(list(columns), rows, sys.stdout, as_json=True, live=True)
        return
    headings = {name: name.ljust(width) for name, width in columns.items()}
    titled = ({heading: row[name] for name, heading in headings.items()} for row in rows)
    write_rows(list(headings.values()), titled, sys.stdout, live=True)


def timestamp(milliseconds: int) -> str:
    """A time of the store as RFC 3339 has it, in UTC; the number itself if no calendar has it."""
    try:
        moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def version_cells(version: Version) -> dict[str, Cell]:
    """A version under the names that Oxia's own tool has for its parts."""
    return {
        "version_id": version.version_id,
        "modifications_count": version.modifications_count,
        "created_timestamp": timestamp(version.created_ms),
        "modified_timestamp": timestamp(version.modified_ms),
        "ephemeral": version.ephemeral,
        "session_id": version.session_id,
        "client_identity": version.client_identity,
    }


def record_cells(record: Record, as_hex: bool) -> dict[str, Cell]:
    """All of a record in one row."""
    assert record.value is not None
    value: Cell = record.value.hex() if as_hex else record.value
    cells: dict[str, Cell] = {"key": record.key, "value": value}
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
