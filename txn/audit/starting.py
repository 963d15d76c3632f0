"""What Java and Spark always say when they start, which means nobody: only that is kept from the terminal."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MURMUR = re.compile(
    rb"WARNING: (Using incubator modules: |package sun\.)"
    rb"|Using Spark's default log4j profile: "
    rb"|Setting (default|Spark) log level to "
    rb"|To adjust logging level use "
    rb"|\S+ \S+ WARN (NativeCodeLoader|Utils): "
    rb"|Traceback .*\n.*pyspark/daemon\.py\b(.*\n)+BrokenPipeError: "
)
"""How it begins: about a module that Spark uses, its log's level, libraries and names that the machine lacks, and a
worker of Python to whom nobody listens any more, since what was asked for is known."""
LISTENER = "murmur"
"""The name of the thread that listens."""
HEARD_WITHIN_S = 1.0
"""How long what was said last by a process that has ended may be on its way."""


@contextmanager
def murmur_unheard() -> Iterator[None]:
    """Processes that are started in the block write their errors to this one's, but for lines that mean nobody."""
    told = os.dup(2)
    heard, said = os.pipe()
    # It lasts for as long as somebody may say something, and the program does not wait for that.
    listener = threading.Thread(target=_pass_on, args=(heard, told), daemon=True, name=LISTENER)
    listener.start()
    os.dup2(said, 2)
    os.close(said)
    try:
        yield
    except BaseException:
        os.dup2(told, 2)
        listener.join(HEARD_WITHIN_S)  # they say why
        raise
    os.dup2(told, 2)


def _pass_on(heard: int, told: int) -> None:
    with os.fdopen(heard, "rb") as lines:
        trace = b""
        for line in lines:
            trace += line
            # A traceback is one saying: it ends with the first line that is not indented.
            if trace.startswith(b"Traceback ") and (trace == line or line.startswith(b" ")):
                continue
            if not MURMUR.match(trace):
                os.write(told, trace)
            trace = b""
        os.write(told, trace)
    os.close(told)
