"""Whose a data directory is. Two locks say it: the system lets go of them when nobody is left who holds them.

One is the standalone's own. The other one is inherited by its metadata service: so while only that one is held, a
process of a standalone that has died is about to end, and is waited for.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from metastore.coordination import Pace

OWN, INHERITED = "LOCK", "LOCK.metadata"
ORPHAN_WITHIN_S = 10.0
"""How long the rest of a standalone that has died may take to end."""
BETWEEN_LOOKS_S = 0.05


class DirectoryTaken(Exception):
    """Something else uses the data directory, or it cannot be used at all."""


class DirectoryLock:
    """A data directory, for as long as this is not closed."""

    def __init__(self, directory: Path, pace: Pace) -> None:
        self._directory = directory
        self._pace = pace
        self._open: list[int] = []

    @property
    def inherited(self) -> int:
        """The file descriptor for the metadata service to inherit."""
        return self._open[1]

    async def take(self) -> None:
        """DirectoryTaken if another one has it."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for name in (OWN, INHERITED):
                self._open.append(os.open(self._directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
            own, inherited = self._open
            if not _locked(own):
                raise DirectoryTaken(f"the data directory {self._directory} is in use by another `tidemark standalone`")
            due_s = self._pace.clock.monotonic_s() + ORPHAN_WITHIN_S
            while not _locked(inherited):
                if self._pace.clock.monotonic_s() >= due_s:
                    raise DirectoryTaken(
                        f"the metadata service of an earlier `tidemark standalone` on {self._directory} does not end "
                        f"within {ORPHAN_WITHIN_S:.0f} s: kill it"
                    )
                await self._pace.sleep(BETWEEN_LOOKS_S)
        except OSError as error:
            self.close()
            raise DirectoryTaken(f"the data directory {self._directory} cannot be used: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Somebody else may have it."""
        while self._open:
            os.close(self._open.pop())


def _locked(descriptor: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
