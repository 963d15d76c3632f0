"""A server process that is to die: told where, and watched until it has."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Self

from metastore.faults import ENVIRONMENT_VARIABLE, UNTIL_VARIABLE
from support.server import ServerFailure, ServerProcess, Sorting

SMALL_SERVER = Path(__file__).with_name("crash_small_server.py")
GONE_WITHIN_S = 60.0


class FaultyServer(ServerProcess):
    """A server with a fault of the test's choice at each start."""

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def arm(self, fault: str | None, until: Path | None = None) -> None:
        """From the next start on: POINT:COUNT:ACTION, or nothing."""
        self._environment.pop(ENVIRONMENT_VARIABLE, None)
        if fault is not None:
            self._environment[ENVIRONMENT_VARIABLE] = fault
        if until is not None:
            self._environment[UNTIL_VARIABLE] = str(until)

    def starts(self) -> bool:
        """Starts it; False if its fault has killed it meanwhile."""
        try:
            self.start()
        except ServerFailure as failure:
            if f"the server ended with {-signal.SIGKILL}:" not in str(failure):
                raise
            return False
        return True

    def wait_until_killed(self) -> None:
        """Returns when it has killed itself."""
        assert self.process.wait(GONE_WITHIN_S) == -signal.SIGKILL, self.log_tail()
        self.kill()


class SmallServer(FaultyServer):
    """A server whose segments, steps, generations and map are so small that every limit is met in a moment."""

    def _base_command(self, shards: int, sorting: Sorting, notifications: bool) -> list[str]:
        tests = str(SMALL_SERVER.parents[1])
        self._environment["PYTHONPATH"] = os.pathsep.join([self._environment["PYTHONPATH"], tests])
        base = super()._base_command(shards, sorting, notifications)
        return [sys.executable, str(SMALL_SERVER), *base[base.index("metastore") :]]
