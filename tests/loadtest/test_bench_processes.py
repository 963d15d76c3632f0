"""What /proc says, and server processes that start, pause, stop, die and refuse to start."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.bench import proc
from loadtest.bench.generator import Generator
from loadtest.bench.model import BenchError, Turn
from loadtest.bench.proc import Memory, PeakMemory, ProcessorUse
from loadtest.bench.servers import Program, Server, echo, free_ports
from loadtest.bench.store import Store
from loadtest.bench.workload import ECHO_PROBE, Echo
from loadtest.machine import describe_machine, describe_versions, file_system_of, processor_name

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"], stdin=subprocess.PIPE)
input()
child.communicate(b"\\n")
"""


@pytest.fixture(scope="module")
def generator() -> Iterator[Generator]:
    with Generator("lean") as generator:
        yield generator


@pytest.fixture
def server(generator: Generator, tmp_path: Path) -> Iterator[Server]:
    with Server(echo(), tmp_path, generator) as server:
        yield server


def answers(server: Server, generator: Generator) -> bool:
    return generator.load(server.address, Echo(is_stream=False), 0, 0.01)["requests"] >= 1


def test_kib_fields_are_read_and_others_left_out() -> None:
    text = "Name:\tserver kB\nVmRSS:\t    60 kB\nThreads:\t4\nRssAnon:\t 8 kB\n"
    assert proc.parse_kib_fields(text) == {"VmRSS": 60 * 1024, "RssAnon": 8 * 1024}


def test_processor_ticks_are_read_past_any_name() -> None:
    fields = [*"S123456789", "0", "7", "5", "3", "2", "99"]
    assert proc.parse_cpu_ticks(f"42 (a (very) bad name) {' '.join(fields)}") == 17
    assert proc.parse_busy_ticks("cpu  10 2 30 1000 500 4 5 6 7 8\ncpu0 1 1 1 1 1 1 1 1 1 1\n") == 57


def test_the_share_of_others_is_what_is_left() -> None:
    before, after = ProcessorUse(10.0, 3.0, 100.0), ProcessorUse(12.0, 4.0, 103.0)
    assert proc.share_of_others(before, after, processors=2) == pytest.approx(0.5)
    assert proc.share_of_others(before, dataclasses.replace(after, own_s=9.0), processors=2) == 0
    assert proc.share_of_others(before, dataclasses.replace(after, busy_s=200.0), processors=2) == 1


def test_a_tree_has_children_and_their_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        tree = proc.process_tree(parent.pid)
        assert len(tree) == 2
        both, alone = proc.memory_of(parent.pid), proc.memory_of(tree[1])
        assert 0 < alone.private < both.private <= both.resident
        assert 0 < both.proportional <= both.resident
        parent.communicate(b"\n")
    assert proc.memory_of(parent.pid) == proc.NO_MEMORY


def test_peak_memory_sees_what_was_held() -> None:
    size = 32 * 1024 * 1024
    before = proc.memory_of(os.getpid())
    with PeakMemory(os.getpid()) as watched:
        held = bytearray(size)
        held[::4096] = b"x" * len(held[::4096])
        inside = proc.memory_of(os.getpid())
    assert watched.peak.private >= inside.private - size // 4
    assert watched.peak.private > before.private
    assert Memory(1, 5, 2).greater_of(Memory(3, 4, 2)) == Memory(3, 5, 2)


def test_a_server_starts_stops_and_starts_again(server: Server, generator: Generator) -> None:
    first = server.pid
    assert answers(server, generator)
    server.stop()
    assert not generator.probe(server.address, ECHO_PROBE, 0.01)
    assert server.start() > 0
    assert server.pid != first
    assert answers(server, generator)


def test_a_paused_server_does_not_answer_and_a_resumed_one_does(server: Server, generator: Generator) -> None:
    server.pause()
    os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)
    assert proc.is_stopped(server.pid)
    assert not generator.probe(server.address, ECHO_PROBE, 0.05)
    with server.awake():
        assert not proc.is_stopped(server.pid)
        assert answers(server, generator)
    server.stop()


def test_a_server_that_dies_is_reported_and_can_be_started_again(server: Server, generator: Generator) -> None:
    os.kill(server.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(BenchError):
        answers(server, generator)
    server.kill()
    with pytest.raises(BenchError, match="not running"):
        server.resume()
    server.start()
    assert answers(server, generator)


def test_a_program_that_ends_at_its_start_shows_its_log(generator: Generator, tmp_path: Path) -> None:
    script = "import sys; sys.exit('no such luck')"
    program = Program("hapless", lambda *_: [sys.executable, "-c", script], ECHO_PROBE)
    with (
        pytest.raises(BenchError, match=r"hapless ended at its start with status 1\n    no such luck"),
        Server(program, tmp_path, generator),
    ):
        pytest.fail("it did not start")


def test_turns_on_a_store_tell_what_they_cost_and_leave_it_paused(server: Server, generator: Generator) -> None:
    store = Store(server, generator)
    server.pause()
    sample = store.load(Echo(is_stream=True), Turn(0, 0.05))
    assert sample["requests"] >= 1
    assert sample["server_cpu_us"] >= 0
    os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)
    assert store.reopen()["open_s"] > 0
    drained = store.drain(Echo(is_stream=True), Turn(0, 0.05))
    assert drained["peak_private_mib"] >= drained["rise_mib"] >= 0
    assert store.reopen_after_kill(Echo(is_stream=True), Turn(0, 0.05))["idle_private_mib"] > 0


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_the_machine_is_described(tmp_path: Path) -> None:
    machine = describe_machine(tmp_path)
    assert set(machine) == {"processor", "cores", "memory_mib", "kernel", "file_system", "load_at_start"}
    assert int(machine["cores"]) >= 1
    assert int(machine["memory_mib"]) > 0
    binary = tmp_path / "oxia"
    binary.write_bytes(b"program")
    assert describe_versions(binary)["oxia"].startswith("sha256:")
    assert "oxia" not in describe_versions(None)


def test_the_file_system_is_that_of_the_nearest_mount() -> None:
    mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/a\\040disk xfs rw 0 0\n"
    assert file_system_of(Path("/srv"), mounts) == "ext4"
    assert file_system_of(Path("/tmp/x"), mounts) == "tmpfs"
    assert file_system_of(Path("/tmp/a disk/y"), mounts) == "xfs"
    assert file_system_of(Path("/tmpfoo"), mounts) == "ext4"


def test_the_processor_has_a_name_or_at_least_a_kind() -> None:
    assert processor_name("processor\t: 0\nmodel name\t: Fast One\n") == "Fast One"
    assert processor_name("processor\t: 0\n") == os.uname().machine
