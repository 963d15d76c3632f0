"""Log lines of services: for people, or as JSON for programs."""

from __future__ import annotations

import json
import logging
import sys


class JsonFormatter(logging.Formatter):
    """A JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        fields = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def set_up_logging(as_json: bool) -> None:
    """Sends the project's log lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    line = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter(line))
    logger = logging.getLogger("tidemark")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
