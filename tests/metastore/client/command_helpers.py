"""`tidemark client` called by tests: in this process, or as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from metastore.client.parser import register
from metastore.commandline import EXIT_SUCCESS, main

PROGRAM = (
    "import sys; from metastore.commandline import main; from metastore.client.parser import register; "
    "sys.exit(main(None, [register]))"
)
WAIT_S = 30.0

OPERATIONS = (
    "put",
    "get",
    "delete",
    "delete-range",
    "list",
    "range-scan",
    "watch",
    "notifications",
    "sequence-updates",
    "session",
    "elect",
    "lock",
)


class CommandLine:
    """Calls the program in this process, on one store."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._capsys = capsys

    def run(self, *arguments: str, code: int = EXIT_SUCCESS) -> str:
        """What it prints, after ending with the code."""
        assert main(["client", "--store", self.url, *arguments], [register]) == code
        output = self._capsys.readouterr()
        assert bool(output.err) == (code != EXIT_SUCCESS)
        assert output.err.count("\n") <= 1
        return output.err if code else output.out

    def json(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("--json", *arguments).splitlines()]


def fields(text: str) -> dict[str, str]:
    """A list of fields, as printed for people."""
    pairs = (row.split(maxsplit=1) for row in text.splitlines())
    return {name: value for name, value in pairs}


@contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program as a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "client", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def json_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line that it prints, parsed."""
    line = line_of(process)
    assert line, process.communicate()
    found: dict[str, Any] = json.loads(line)
    return found
