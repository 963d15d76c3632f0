"""What the data source says comes through Spark with its traceback; only its sentence is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from metastore.commandline import CommandError, UsageError
from metastore.spark import PointGone, ReadError, WrongOption

_ERROR = re.compile(r"metastore\.spark\.errors\.(\w+): (.+)")


@contextmanager
def told_in_words() -> Iterator[None]:
    """Errors of Spark in the block become those of a command."""
    try:
        yield
    except ReadError as error:
        raise _plain(type(error).__name__, str(error)) from error
    except PySparkException as error:
        sentence = _ERROR.search(str(error))
        if sentence is None:
            raise CommandError(f"Spark: {str(error).strip().splitlines()[0]}") from error
        raise _plain(sentence[1], sentence[2]) from error


def _plain(kind: str, text: str) -> CommandError:
    return UsageError(text) if kind == WrongOption.__name__ else CommandError(text)


def gone(error: PySparkException) -> str | None:
    """What is said of changes that are no longer kept; None if the error is another one."""
    sentence = _ERROR.search(str(error))
    return sentence[2] if sentence is not None and sentence[1] == PointGone.__name__ else None
