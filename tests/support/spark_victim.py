"""A program with a streaming query, to be killed at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from support.server import PROJECT_ROOT, ServerProcess

WITHIN_S = 120.0


class Victim:
    """A query in a process group of its own, whose end nothing can prepare for."""

    def __init__(self, arguments: Sequence[str], checkpoints: Path, folder: Path) -> None:
        """`arguments` are Python's; in `checkpoints`, or below it, the query notes its batches."""
        self._checkpoints = checkpoints
        self._before = self._committed()
        self._log = folder / "query.log"
        places = [str(PROJECT_ROOT), str(PROJECT_ROOT / "tests")]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _committed(self) -> int:
        return len(list(self._checkpoints.glob("**/commits/[0-9]*")))

    def wait(self, batches: int) -> None:
        """Until it has written so many batches."""
        deadline_s = time.monotonic() + WITHIN_S
        while self._committed() < self._before + batches:
            assert self.process.poll() is None, f"the query has ended:\n{self.said()}"
            assert time.monotonic() < deadline_s, f"the query writes nothing:\n{self.said()}"
            time.sleep(0.02)

    def die(self, server: ServerProcess, batches: int, *, store_first: bool) -> None:
        """Ends it and kills the store, one after the other, when it has written so many batches."""
        try:
            self.wait(batches)
            if store_first:
                # In the middle of a batch, or between two: the query goes on or fails, and neither may count.
                server.restart("kill")
        finally:
            self.kill()
        if not store_first:
            server.restart("kill")

    def said(self) -> str:
        """The end of what it has said."""
        return self._log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """Ends it and all that it has started."""
        with contextlib.suppress(ProcessLookupError):  # it had failed, as it may when the store is gone
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
