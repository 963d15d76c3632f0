"""What the application does with one call."""

from __future__ import annotations

from typing import Protocol


class Handler(Protocol):
    """The other side of a `Call`: is told what happens to it.

    The callbacks of one call never overlap and come in order; `on_over` is the last, and comes exactly once.
    Once the handler has finished the call, no other comes. They run on the server's threads and may block. An
    exception ends the call with INTERNAL.
    """

    def on_message(self, message: bytes) -> None:
        """The client sent a message. The next is received after this returns, unless the call is paused."""

    def on_half_close(self) -> None:
        """The client will send nothing more and waits for answers; or it is gone, and `on_over` follows."""

    def on_drained(self) -> None:
        """Everything sent so far is on its way: the moment to produce more."""

    def on_over(self) -> None:
        """The call is finished, cancelled or lost: free what it holds."""


class NoHandler:
    """For a call that has been answered already."""

    def on_message(self, message: bytes) -> None:
        """Too late."""

    def on_half_close(self) -> None:
        """Too late."""

    def on_drained(self) -> None:
        """Nothing to produce."""

    def on_over(self) -> None:
        """Nothing to free."""
