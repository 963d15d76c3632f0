"""What the metadata service logs, as log lines of this process: so there is one log, in one form."""

from __future__ import annotations

import asyncio
import json
import logging

LINE_BYTES_MAX = 1 << 20
"""A longer one is left out, and that is said."""

_LEVELS = {"info": logging.DEBUG, "warning": logging.WARNING, "error": logging.ERROR, "critical": logging.CRITICAL}
"""That it starts and stops is no news for whoever runs all of it: what is, is said here."""

logger = logging.getLogger("tidemark.metastore")


async def relay(lines: asyncio.StreamReader) -> None:
    """Logs line by line, until the other side is closed."""
    while True:
        try:
            line = await lines.readline()
        except ValueError:
            logger.warning("the metadata service has logged more than %d bytes at once: left out", LINE_BYTES_MAX)
            continue
        if not line:
            return
        level, text = read(line.decode("utf-8", "replace").rstrip())
        logger.log(level, "%s", text)


def read(line: str) -> tuple[int, str]:
    """Level and text of a line; one that is no record, as the last words of a process are, is a warning."""
    try:
        record = json.loads(line)
        level, text = _LEVELS[record["level"]], str(record["message"])
    except (ValueError, TypeError, KeyError):
        return logging.WARNING, line
    return level, "\n".join([text, *([record["trace"]] if "trace" in record else [])])
