"""How a process waits for its end. Signals are blocked and waited for, so that none is lost to a busy thread.

A handler would run only when Python's main thread is woken, and a signal that the kernel gives to another thread does
not wake it. Threads and child processes inherit the block; so it comes before all of them.
"""

from __future__ import annotations

import os
import signal

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})


def block_stop_signals() -> None:
    """From now on a signal to stop waits until it is asked for."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def wait_for_stop() -> None:
    """Returns when the process was asked to stop; a signal that it ignores asks nothing.

    Ignored ones come here as well: they are blocked, and the system drops an ignored signal only where it is not.
    """
    while signal.getsignal(signal.sigwait(STOP_SIGNALS)) is signal.SIG_IGN:
        pass


def ask_to_stop() -> None:
    """Asks this process to stop, from any thread."""
    os.kill(os.getpid(), signal.SIGTERM)
