"""What can go wrong with a log, and what the caller may still do."""

from __future__ import annotations

import errno
from pathlib import Path

NO_SPACE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class LogError(Exception):
    """The root: every other error of the log is one of these."""


class LogFull(LogError):
    """There was no space; nothing was changed, and the caller may go on, or try again later."""


class LogFailed(LogError):
    """No more writes until the log is opened again: an I/O error left in doubt what is on the disk."""


class LogDamaged(LogError):
    """A file does not hold what was once written into it."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path}, byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class LogTrimmed(LogError):
    """The entry asked for is no longer retained; `oldest` is the first one that is."""

    def __init__(self, offset: int, oldest: int) -> None:
        super().__init__(f"offset {offset} is trimmed away: the oldest retained is {oldest}")
        self.offset = offset
        self.oldest = oldest


def is_no_space(error: OSError) -> bool:
    """Whether the error says that the disk, the quota or the file-size limit is used up."""
    return error.errno in NO_SPACE_ERRNOS
