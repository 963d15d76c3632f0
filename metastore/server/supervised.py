"""A process that another one keeps: it says when it serves, or why it cannot, and it ends with its keeper.

It speaks on its standard output. The keeper holds the other end of its standard input: however the keeper ends, the
system closes that. So no process that is kept outlives its keeper.
"""

from __future__ import annotations

import signal
import sys
import threading

from metastore.server.signals import ask_to_stop, block_stop_signals

READY = "ready"
"""What a process prints when it serves, and where if its keeper cannot know; one that cannot prints the reason."""


def live_with_keeper() -> None:
    """From now on the end of the standard input asks this process to stop. The terminal's Ctrl-C is the keeper's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    block_stop_signals()
    threading.Thread(target=_await_orphanage, name="keeper", daemon=True).start()


def say_ready(*places: str) -> None:
    """Tells the keeper that this process serves."""
    print(READY, *places, flush=True)


def say_failed(error: Exception) -> None:
    """Tells the keeper, in one line, why this process cannot serve."""
    print(" ".join(str(error).split()), flush=True)


def _await_orphanage() -> None:
    """The standard input stays open for as long as the keeper lives."""
    if sys.stdin is not None:
        sys.stdin.read()
    ask_to_stop()
