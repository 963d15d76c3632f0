"""`tidemark txn` called by tests: in this process, or as a process of its own; and stores with something to see."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from doctor_stage import BILLS, Stage

from metastore.commandline import EXIT_SUCCESS, main
from metastore.coordination import Pace
from metastore.interface import MetadataStore, open_store
from txn.doctor.command import register

WITHIN_S = 30.0
LONG_MS = 3_600_000


class Transactions(NamedTuple):
    """What there is in a staged store."""

    holder: str
    """Open; wrote to both segments, acknowledged in one."""
    behind: str
    """Open; wrote to one segment, later."""
    committed: str
    """Applied by one of two participants."""
    aborted: str
    """Applied by all."""


async def stage_all(store: MetadataStore) -> Transactions:
    stage = Stage(store, Pace())
    await stage.create()
    holder, behind = await stage.begin("ann", LONG_MS), await stage.begin(None, LONG_MS)
    await stage.write(holder, entries=3)
    await stage.write(holder, BILLS)
    await stage.acknowledge(holder)
    await stage.write(behind, entries=2)
    committed, aborted = await stage.begin("bob", LONG_MS), await stage.begin("bob", LONG_MS)
    await stage.write(committed)
    await stage.acknowledge(committed, BILLS)
    await stage.coordinator.commit(committed, principal="bob")
    await stage.apply(committed)
    await stage.write(aborted, BILLS)
    await stage.coordinator.abort(aborted, principal="bob")
    await stage.apply(aborted, BILLS)
    await stage.note_aborted(aborted, 1, 1, BILLS)
    return Transactions(str(holder), str(behind), str(committed), str(aborted))


def stage_at(url: str) -> Transactions:
    """Stages the transactions in the store at a URL."""

    async def whole() -> Transactions:
        async with await open_store(url) as store:
            return await stage_all(store)

    return asyncio.run(whole())


class Doctor:
    """Calls the program in this process, on one store."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._capsys = capsys

    def run(self, *arguments: str, code: int = EXIT_SUCCESS) -> str:
        """What it prints, after ending with the code; of a failure the one line that says why."""
        assert main(["txn", "--store", self.url, *arguments], [register]) == code
        output = self._capsys.readouterr()
        if code:
            assert output.err.count("\n") == 1
            return output.err
        assert output.err == ""
        return output.out

    def json(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("--json", *arguments).splitlines()]


def program(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the installed program as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "metastore.commandline", "txn", *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env=os.environ,
        check=False,
    )


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The installed program as a process of its own, while it runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "metastore.commandline", "txn", *arguments],
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
