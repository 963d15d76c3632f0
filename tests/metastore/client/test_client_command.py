"""`tidemark client` on a real server: what it prints for people and for programs, and how it ends."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from metastore.client.client import Client
from metastore.client.command import register
from metastore.client.errors import KeyNotFound
from metastore.commandline import EXIT_FAILURE, EXIT_SUCCESS, EXIT_USAGE, main
from support.server import ServerProcess

PROGRAM = (
    "import sys; from metastore.commandline import main; from metastore.client.command import register; "
    "sys.exit(main(None, [register]))"
)
WAIT_S = 30.0


@pytest.fixture(autouse=True, scope="module")
def _interrupts_are_heard() -> Iterator[None]:
    """A shell that runs the tests in the background has them ignore SIGINT, and with them the programs they start."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


class CommandLine:
    """Calls the program in this process."""

    def __init__(self, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._address = address
        self._capsys = capsys

    def run(self, *arguments: str, code: int = EXIT_SUCCESS) -> str:
        """What it prints, after ending with the code."""
        assert main(["client", "-a", self._address, *arguments], [register]) == code
        output = self._capsys.readouterr()
        assert bool(output.err) == (code != EXIT_SUCCESS)
        return output.err if code else output.out

    def json(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments, "--json").splitlines()]


@pytest.fixture
def line(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(server.address, capsys)


def fields(text: str) -> dict[str, str]:
    """A list of fields, as printed for people."""
    pairs = (row.split(maxsplit=1) for row in text.splitlines())
    return {name: value for name, value in pairs}


def test_put_prints_key_and_version(line: CommandLine, client: Client, root: str) -> None:
    printed = fields(line.run("put", root, "hello"))
    version = client.get(root).version
    assert printed["key"] == root
    assert printed["version_id"] == str(version.version_id)
    assert (printed["modifications_count"], printed["ephemeral"], printed["session_id"]) == ("0", "no", "-")
    [cells] = line.json("put", root, "again")
    assert (cells["key"], cells["modifications_count"], cells["session_id"]) == (root, 1, None)
    assert cells["created_timestamp"] == printed["created_timestamp"]
    assert client.get(root).value == b"again"


def test_put_takes_a_value_from_standard_input(
    line: CommandLine, client: Client, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff\n")))
    line.run("put", root, "--std-in")
    assert client.get(root).value == b"\x00\xff\n"


def test_put_is_conditional(line: CommandLine, root: str) -> None:
    assert "is not 7" in line.run("put", root, "v", "-e", "7", code=EXIT_FAILURE)
    line.run("put", root, "v", "-e", "-1")
    assert "the key exists" in line.run("put", root, "v", "-e", "-1", code=EXIT_FAILURE)


def test_put_makes_sequences_and_index_entries(line: CommandLine, client: Client, root: str) -> None:
    index = f"index of {root[1:]}"
    [cells] = line.json(
        "put", root, "v", "-p", "p", "-d", "1,5", "--index", f"{index}=s", "--index", f"{index}=t"
    )
    assert cells["key"] == f"{root}-{1:020}-{5:020}"
    assert client.get("t", index=index).key == cells["key"]


def test_get_prints_the_value_byte_for_byte(
    server: ServerProcess, client: Client, root: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    client.put(root, b"\x00\xff\r\nend")
    assert main(["client", "-a", server.address, "get", root], [register]) == EXIT_SUCCESS
    assert capfdbinary.readouterr().out == b"\x00\xff\r\nend"


def test_get_prints_the_version_behind_the_value(line: CommandLine, client: Client, root: str) -> None:
    client.put(root, b"hello")
    value, _, version = line.run("get", root, "-v").partition("\n---\n")
    assert value == "hello"
    assert fields(version)["key"] == root
    assert line.run("get", root, "--hex").startswith("00000000  68 65 6c 6c 6f ")


def test_get_prints_json(line: CommandLine, client: Client, root: str) -> None:
    version = client.put(root, b"hello").version
    [cells] = line.json("get", root)
    assert (cells["key"], cells["value"], cells["version_id"]) == (root, "hello", version.version_id)
    assert "secondary_key" not in cells
    assert line.json("get", root, "--hex")[0]["value"] == "68656c6c6f"
    client.put(root, b"\xff")
    assert line.json("get", root)[0]["value"] == {"base64": "/w=="}


def test_get_finds_neighbours_and_secondary_keys(line: CommandLine, client: Client, root: str) -> None:
    index = f"index of {root[1:]}"
    for name in "ace":
        client.put(f"{root}/{name}", b"v", secondary_indexes=[(index, name)])
    for comparison, name in [("floor", "c"), ("lower", "c"), ("ceiling", "e"), ("higher", "e")]:
        assert line.json("get", f"{root}/d", "-t", comparison)[0]["key"] == f"{root}/{name}"
        [cells] = line.json("get", "d", "--index", index, "-t", comparison)
        assert (cells["key"], cells["secondary_key"]) == (f"{root}/{name}", name)
    error = line.run("get", f"{root}/d", code=EXIT_FAILURE)
    assert error.startswith(f"tidemark: get '{root}/d': no such key")


def test_delete(line: CommandLine, client: Client, root: str) -> None:
    client.put(root, b"")
    assert "is not 123" in line.run("delete", root, "-e", "123", code=EXIT_FAILURE)
    assert line.run("delete", root) == f"deleted {root}\n"
    assert "no such key" in line.run("delete", root, code=EXIT_FAILURE)
    client.put(root, b"")
    assert line.json("delete", root) == [{"key": root, "deleted": True}]


def test_delete_range(line: CommandLine, client: Client, root: str) -> None:
    for name in "abc":
        client.put(f"{root}/{name}", b"")
    printed = line.run("delete-range", "-s", f"{root}/b", "-e", f"{root}//")
    assert printed == f"deleted all from {root}/b to before {root}//\n"
    assert list(client.list(f"{root}/", f"{root}//")) == [f"{root}/a"]
    assert line.json("delete-range", "-s", f"{root}/", "-e", f"{root}//") == [
        {"key_min": f"{root}/", "key_max": f"{root}//", "deleted": True}
    ]


def test_list_prints_one_key_a_line(line: CommandLine, client: Client, root: str) -> None:
    keys = [f"{root}/{name}" for name in ("a", "b\x1b", "c")]
    for key in keys:
        client.put(key, b"")
    bounds = ["-s", f"{root}/", "-e", f"{root}//"]
    assert line.run("list", *bounds).splitlines() == [keys[0], f"{root}/b\\x1b", keys[2]]
    assert line.json("list", *bounds) == [{"key": key} for key in keys]
    assert line.run("list", "-s", "x", "-e", "x") == ""
    internal = f"__oxia/zz-test{root}"
    client.put(internal, b"")
    assert internal not in line.run("list").splitlines()
    assert internal in line.run("list", "--internal-keys").splitlines()
    client.delete(internal)


def test_range_scan_prints_a_table(line: CommandLine, client: Client, root: str) -> None:
    for name in "ab":
        client.put(f"{root}/{name}", f"value of {name}".encode())
    bounds = ["-s", f"{root}/", "-e", f"{root}//"]
    headings, *rows = line.run("range-scan", *bounds).splitlines()
    assert headings.split() == ["KEY", "VALUE"]
    assert rows == [f"{root}/a  value of a", f"{root}/b  value of b"]
    assert "MODIFICATIONS_COUNT" in line.run("range-scan", *bounds, "-v")
    assert [(cells["key"], cells["value"]) for cells in line.json("range-scan", *bounds, "--hex")] == [
        (f"{root}/{name}", f"value of {name}".encode().hex()) for name in "ab"
    ]


def test_notifications_are_printed_up_to_a_count(line: CommandLine, client: Client, root: str) -> None:
    with client.notifications() as stream:
        after = [f"--after-offset={shard}={offset}" for shard, offset in stream.offsets.items()]
    version = client.put(root, b"").version
    client.delete_range(f"{root}/", f"{root}//")
    told = line.json("notifications", *after, "--count", str(1 + len(client.shard_ids())))
    [created] = [cells for cells in told if cells["type"] == "created"]
    assert (created["key"], created["version_id"]) == (root, version.version_id)
    ranges = [cells for cells in told if cells["type"] == "range-deleted"]
    assert {cells["key_range_end"] for cells in ranges} == {f"{root}//"}
    assert {cells["shard"] for cells in ranges} == set(client.shard_ids())
    headings, *rows = line.run("notifications", *after, "--count", "2").splitlines()
    assert headings.split()[:4] == ["SHARD", "OFFSET", "TIMESTAMP", "TYPE"]
    assert len(rows) == 2
    assert line.json("notifications", "--after-offset", "-1", "--count", "1")


def test_an_offset_of_an_unknown_shard(line: CommandLine) -> None:
    assert "there is no shard 99" in line.run("notifications", "--after-offset", "99=1", code=EXIT_USAGE)


def test_sequence_updates_are_printed_up_to_a_count(line: CommandLine, client: Client, root: str) -> None:
    client.put(root, b"", partition_key="p", sequence_deltas=[3])
    key = f"{root}-{3:020}"
    assert line.run("sequence-updates", root, "-p", "p", "--count", "1") == f"{key}\n"
    assert line.json("sequence-updates", root, "-p", "p", "--count", "1") == [{"key": key}]


def test_a_session_tells_what_happens_to_it(line: CommandLine, client: Client, root: str) -> None:
    events = line.json("session", "--put", root, "v", "--identity", "me", "--for", "0s")
    assert [cells["event"] for cells in events] == ["opened", "put", "closed"]
    opened, put, closed = events
    assert opened["session_id"] == put["session_id"] == closed["session_id"]
    assert put["key"] == root
    with pytest.raises(KeyNotFound):
        client.get(root)
    headings, *rows = line.run("session", "--for", "0s").splitlines()
    assert headings.split()[:3] == ["EVENT", "SHARD", "SESSION_ID"]
    assert [row.split()[0] for row in rows] == ["opened"] * 3 + ["closed"] * 3


def test_an_abandoned_session_is_left_to_expire(line: CommandLine, client: Client, root: str) -> None:
    events = line.json("session", "--put", root, "v", "--session-timeout", "5m", "--for", "0s", "--abandon")
    assert [cells["event"] for cells in events] == ["opened", "put", "abandoned"]
    assert client.get(root).version.session_id == events[0]["session_id"]
    client.delete(root)


def test_a_session_that_fails_on_the_way_is_closed(line: CommandLine, client: Client, root: str) -> None:
    error = line.run("session", "--put", root, "v", "--session-timeout", "1s", code=EXIT_USAGE)
    assert "session" in error
    bad = "\udc80\ud800"
    assert "UTF-8" in line.run("session", "--put", root, "v", "--put", bad, "v", code=EXIT_USAGE)
    with pytest.raises(KeyNotFound):
        client.get(root)


def test_an_unknown_namespace_is_a_failure(line: CommandLine) -> None:
    assert "'nowhere'" in line.run("list", "-n", "nowhere", code=EXIT_FAILURE)


@contextmanager
def program(address: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program as a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "client", "-a", address, *arguments],
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_is_closed(
    server: ServerProcess, client: Client, root: str, number: signal.Signals
) -> None:
    with program(server.address, "session", "--json", "--put", root, "v") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "opened"
        assert json.loads(process.stdout.readline())["event"] == "put"
        assert client.get(root).version.ephemeral
        process.send_signal(number)
        printed, complaints = process.communicate(timeout=WAIT_S)
        assert (process.returncode, complaints) == (EXIT_SUCCESS, "")
    assert [json.loads(text)["event"] for text in printed.splitlines()] == ["closed"]
    with pytest.raises(KeyNotFound):
        client.get(root)


def test_notifications_are_printed_as_they_come(server: ServerProcess, client: Client, root: str) -> None:
    with program(server.address, "notifications") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("SHARD")  # printed when the subscription stands
        for name in "ab":
            client.put(f"{root}/{name}", b"")
            assert f"{root}/{name}" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=WAIT_S)
        assert (process.returncode, complaints) == (128 + signal.SIGINT, "")


def test_notifications_that_break_off_say_where_to_go_on() -> None:
    with ServerProcess() as server, Client(server.address) as client:
        with program(server.address, "notifications", "--json", "--after-offset", "-1") as process:
            assert process.stdout is not None
            client.put("k", b"")
            assert json.loads(process.stdout.readline())["key"] == "k"
            server.kill()
            _, complaints = process.communicate(timeout=WAIT_S)
        assert process.returncode == EXIT_FAILURE
        assert "--after-offset 0=0" in complaints
        assert complaints.count("\n") == 1


def test_a_session_whose_server_dies_ends_by_itself() -> None:
    with ServerProcess() as server:
        with program(
            server.address, "session", "--json", "--put", "k", "v", "--session-timeout", "2s"
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.readline()
            server.kill()
            _, complaints = process.communicate(timeout=WAIT_S)
        assert process.returncode == EXIT_FAILURE
        assert "is lost" in complaints
