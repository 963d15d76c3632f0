"""The starter of servers under test: it starts, stops, shows what went wrong, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from support import server as server_module
from support.server import COMMAND_VARIABLE, ServerFailure, ServerProcess, running

SERVER = """
import concurrent.futures, os, pathlib, signal, subprocess, sys
import grpc

port, metrics, shards, directory, sorting, notifications, *behaviour = sys.argv[1:]
print("started with", shards, sorting, notifications, behaviour, os.environ.get("EXTRA"), flush=True)
if "fails" in behaviour:
    sys.exit(3)
if "stubborn" in behaviour:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
starts = pathlib.Path(directory, "starts")
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
pathlib.Path(directory, "child").write_text(str(child.pid))
if "silent" not in behaviour:
    check = grpc.unary_unary_rpc_method_handler(lambda request, context: bytes([8, 1]))
    handler = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1), handlers=[handler])
    assert server.add_insecure_port("127.0.0.1:" + port) == int(port)
    server.start()
while True:
    signal.pause()
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server above takes the place of the real one."""
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    placeholders = "{port} {metrics} {shards} {dir} {sorting} {notifications}"
    monkeypatch.setenv(COMMAND_VARIABLE, f"{sys.executable} {script} {placeholders}")


def answers(server: ServerProcess) -> bool:
    with grpc.insecure_channel(server.address) as channel:
        check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            return bool(check(b"", timeout=30.0) == b"\x08\x01")
        except grpc.RpcError:
            return False


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not yet collected by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.usefixtures("command")
def test_it_serves_with_its_options_and_is_gone_afterwards() -> None:
    with ServerProcess(
        shards=3, sorting="natural", notifications=False, extra_args=("more",), environment={"EXTRA": "seen"}
    ) as server:
        assert answers(server)
        assert server in running
        assert server.log_tail() == "started with 3 natural false ['more'] seen\n"
        child = int((server.directory / "child").read_text())
        assert lives(child)
    assert not answers(server)
    assert not lives(child)
    assert not server.is_alive
    assert server not in running
    assert not server.directory.exists()


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_restart_keeps_folder_and_address(how: str) -> None:
    with ServerProcess() as server:
        child = int((server.directory / "child").read_text())
        address, process = server.address, server.process
        server.restart("kill" if how == "kill" else "terminate")
        assert process.returncode == (-9 if how == "kill" else 0)
        assert server.address == address
        assert answers(server)
        assert (server.directory / "starts").read_text() == "xx"
        assert not lives(child)


@pytest.mark.usefixtures("command")
def test_a_server_that_ends_at_once_is_shown() -> None:
    server = ServerProcess(extra_args=("fails",))
    with pytest.raises(ServerFailure, match="(?s)ended with 3: .*fails.*started with"):
        server.__enter__()
    assert server not in running
    assert not server.directory.exists()


@pytest.mark.usefixtures("command")
def test_a_server_that_never_serves_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "START_WITHIN_S", 0.5)
    server = ServerProcess(extra_args=("silent",))
    with pytest.raises(ServerFailure, match="does not serve"):
        server.__enter__()
    assert not server.is_alive
    assert not server.directory.exists()


@pytest.mark.usefixtures("command")
def test_a_server_that_does_not_stop_is_killed_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STOP_WITHIN_S", 0.2)
    with ServerProcess(extra_args=("stubborn",)) as server:
        with pytest.raises(ServerFailure, match="has not stopped"):
            server.terminate()
        assert not server.is_alive


@pytest.mark.usefixtures("command")
def test_a_failure_shows_the_log() -> None:
    with pytest.raises(ZeroDivisionError) as failure, ServerProcess(shards=7):
        os.getpid() / 0
    (note,) = failure.value.__notes__
    assert "started with 7 hierarchical true" in note
