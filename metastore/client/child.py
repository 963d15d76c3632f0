"""The command that runs while something is held."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence

ENDING_GRACE_S = 1.0
"""How long a command has to end when what it ran under is lost, before it is killed."""


class Child:
    """A command, running."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def started(cls, command: Sequence[str], environment: Mapping[str, str]) -> Child:
        """Runs it with this program's input and output; OSError if that cannot be."""
        return cls(await asyncio.create_subprocess_exec(*command, env=environment))

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    @property
    def exit_code(self) -> int:
        """As a shell tells it."""
        code: int | None = self._process.returncode
        assert code is not None, "the command has ended"
        return code if code >= 0 else 128 - code

    async def wait(self) -> None:
        """Returns when it has ended."""
        await self._process.wait()

    def pass_on(self, number: signal.Signals) -> None:
        """Sends it a signal that this program got, unless the terminal has sent it to both."""
        if not self.has_ended and not (number == signal.SIGINT and _is_in_foreground()):
            self._process.send_signal(number)

    async def end(self) -> None:
        """Sees to it that it has ended, by force if need be."""
        if self.has_ended:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(ENDING_GRACE_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def _is_in_foreground() -> bool:
    """Whether this program has a terminal, and what is typed there as Ctrl-C goes to its whole group."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
