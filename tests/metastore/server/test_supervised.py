"""`tidemark metastore --until-stdin-ends`: it says where it serves or why not, and ends when its keeper does."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from metastore.interface import BlockingStore

WITHIN_S = 60.0
ANY = "127.0.0.1:0"


def kept(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "metastore.commandline", "metastore", "--data-dir", str(directory)]
    places = ("--public-addr", ANY, "--metrics-addr", ANY)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, *places, *arguments, "--until-stdin-ends"], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


@pytest.mark.parametrize("by_signal", [False, True])
def test_it_says_where_it_serves_and_ends_with_its_standard_input(tmp_path: Path, by_signal: bool) -> None:
    with kept(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        word, address, metrics_address = process.stdout.readline().split()
        assert word == "ready"
        assert metrics_address.startswith("127.0.0.1:")
        for _ in range(3):
            process.send_signal(signal.SIGINT)  # the keeper's
        with BlockingStore.open(f"oxia://{address}") as store:
            store.put("/a", b"b")
            assert list(store.list()) == ["/a"]
        if by_signal:
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
        assert process.wait(WITHIN_S) == 0
        assert process.stdout.read() == ""
        assert "stopped in" in process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "code", "reason"), [(("--shards", "0"), 2, "shards must be"), (("--quota", "much"), 2, "much")]
)
def test_it_says_why_it_cannot_serve(tmp_path: Path, arguments: tuple[str, ...], code: int, reason: str) -> None:
    with kept(tmp_path, *arguments) as process:
        told, log = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, log) == (code, "")
    assert reason in told
    assert told.count("\n") == 1


def test_a_directory_in_use_is_a_reason(tmp_path: Path) -> None:
    with kept(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline().startswith("ready ")
        with kept(tmp_path) as second:
            told, _ = second.communicate(timeout=WITHIN_S)
        assert second.returncode == 1
        assert "in use by another process" in told
        first.communicate(timeout=WITHIN_S)
    assert first.returncode == 0
