"""What one part of the project has logged.

Other lines come whenever they like: asyncio tells of an error that nobody has asked for when the garbage of a test long
over is collected.
"""

from __future__ import annotations

import pytest


def lines_of(logger: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of this logger, in their order."""
    return [record.getMessage() for record in caplog.records if record.name == logger]
