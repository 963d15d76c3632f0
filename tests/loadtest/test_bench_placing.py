"""A client and a server that do not share a processor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from loadtest.bench.placing import apart


@contextmanager
def waiting() -> Iterator[int]:
    """A process that does nothing until its input ends."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process.pid


def test_the_client_has_a_processor_for_itself_while_the_block_runs() -> None:
    everywhere = os.sched_getaffinity(0)
    with waiting() as server, waiting() as client:
        with apart(server, client):
            taken = os.sched_getaffinity(client)
            if len(everywhere) > 1:
                assert len(taken) == 1
                assert os.sched_getaffinity(server) == everywhere - taken
        assert os.sched_getaffinity(client) == os.sched_getaffinity(server) == everywhere


def test_one_processor_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    everywhere = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with waiting() as server, waiting() as client, apart(server, client):
        monkeypatch.undo()
        assert os.sched_getaffinity(client) == os.sched_getaffinity(server) == everywhere
