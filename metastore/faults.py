"""Named points at which a test may stop the process or make an operation fail.

Crash safety is claimed for every instant; the instants that matter have names. The code says
`faults.reach("log.append.before")`, and in production that is one call of an empty function. A test names a
point in the environment variable `TIDEMARK_FAULT`, as `POINT:COUNT:ACTION`:

- `kill`  the process kills itself with SIGKILL when it reaches the point for the COUNTth time;
- `nospace`  from the COUNTth time on, the point raises OSError(ENOSPC), until the file named by
  `TIDEMARK_FAULT_UNTIL` exists;
- `ioerror`  the COUNTth time raises OSError(EIO).

An object is passed down instead of a global being consulted, so that two stores in one process can differ.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from pathlib import Path

ENVIRONMENT_VARIABLE = "TIDEMARK_FAULT"
UNTIL_VARIABLE = "TIDEMARK_FAULT_UNTIL"
ACTIONS = ("kill", "nospace", "ioerror")


class Faults:
    """Injects nothing: the production object."""

    def reach(self, point: str) -> None:
        """Called when the code arrives at a named point."""


class ArmedFault(Faults):
    """Acts when one named point is reached for the given time."""

    def __init__(self, point: str, count: int, action: str, until: Path | None = None) -> None:
        if action not in ACTIONS:
            raise ValueError(f"unknown fault action {action!r}: one of {', '.join(ACTIONS)}")
        if count < 1:
            raise ValueError(f"a fault count starts at 1, got {count}")
        self.point = point
        self.remaining = count
        self.action = action
        self.until = until

    def reach(self, point: str) -> None:
        if point != self.point:
            return
        self.remaining -= 1
        if self.remaining > 0:
            return
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.action == "nospace":
            if self.until is None or not self.until.exists():
                raise OSError(errno.ENOSPC, f"injected at {point}")
        elif self.remaining == 0:
            raise OSError(errno.EIO, f"injected at {point}")


NO_FAULTS = Faults()


def faults_from_environment(environment: Mapping[str, str]) -> Faults:
    """The fault that the environment asks for, or none."""
    text = environment.get(ENVIRONMENT_VARIABLE)
    if not text:
        return NO_FAULTS
    parts = text.split(":")
    if len(parts) != 3 or not parts[1].isdigit():
        raise ValueError(f"{ENVIRONMENT_VARIABLE}={text!r} is not POINT:COUNT:ACTION")
    until = environment.get(UNTIL_VARIABLE)
    return ArmedFault(parts[0], int(parts[1]), parts[2], Path(until) if until else None)
