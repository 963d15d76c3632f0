"""What can be wrong with a read: each says what to do. Spark shows their text in its own errors."""

from __future__ import annotations


class ReadError(Exception):
    """A read that cannot be."""

    def __reduce__(self) -> tuple[type[ReadError], tuple[object, ...]]:
        """Errors travel between Spark's processes by their text."""
        return type(self), self.args


class WrongOption(ReadError, ValueError):
    """An option that is unknown, or has no such value, or does not go with another one."""


class StoreUnreachable(ReadError):
    """The store cannot be read: nobody answers, or there is none."""


class PointGone(ReadError):
    """The state, or the changes, that were asked for are no longer kept."""


class Inconsistent(ReadError):
    """The store cannot be read at one point."""
