"""`tidemark client` on records: what it prints for people and for programs, on stores of three kinds."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_helpers import CommandLine, fields

from metastore.client.parser import register
from metastore.commandline import EXIT_FAILURE, EXIT_SUCCESS, EXIT_USAGE, main
from metastore.interface import BlockingStore
from support.server import ServerProcess

_numbers = itertools.count()


@pytest.fixture(scope="module", params=["memory", "lmdb", "server"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "memory":
        with BlockingStore.open("memory://command-records?shards=3"):
            yield "memory://command-records?shards=3"
    elif request.param == "lmdb":
        yield f"lmdb://{tmp_path_factory.mktemp('store')}/data?sync=false&shards=2"
    else:
        with ServerProcess(shards=3) as server:
            yield f"oxia://{server.address}"


@pytest.fixture
def line(url: str, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(url, capsys)


@pytest.fixture
def root() -> str:
    """A path under which nobody else has keys."""
    return f"/command-test-{next(_numbers)}"


def test_put_prints_key_and_version(line: CommandLine, root: str) -> None:
    printed = fields(line.run("put", root, "hello"))
    [found] = line.json("get", root)
    assert printed["key"] == root
    assert printed["version_id"] == str(found["version_id"])
    assert (printed["modifications_count"], printed["ephemeral"], printed["session_id"]) == ("0", "no", "-")
    [cells] = line.json("put", root, "again")
    assert (cells["key"], cells["modifications_count"], cells["session_id"]) == (root, 1, None)
    assert cells["created_timestamp"] == printed["created_timestamp"]
    assert line.json("get", root)[0]["value"] == "again"


def test_put_takes_a_value_from_standard_input(line: CommandLine, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff\n")))
    line.run("put", root, "--std-in")
    assert line.json("get", root)[0]["value"] == {"base64": "AP8K"}


def test_put_is_conditional(line: CommandLine, root: str) -> None:
    assert root in line.run("put", root, "v", "-e", "7", code=EXIT_FAILURE)
    line.run("put", root, "v", "-e", "-1")
    assert root in line.run("put", root, "v", "-e", "-1", code=EXIT_FAILURE)
    version_id = line.json("get", root)[0]["version_id"]
    assert line.json("put", root, "w", "-e", str(version_id))[0]["modifications_count"] == 1


def test_put_makes_sequences_and_index_entries(line: CommandLine, root: str) -> None:
    index = f"index of {root[1:]}"
    [cells] = line.json("put", root, "v", "-p", "p", "-d", "1,5", "--index", f"{index}=s", "--index", f"{index}=t")
    assert cells["key"] == f"{root}-{1:020}-{5:020}"
    assert line.json("get", "t", "--index", index)[0]["key"] == cells["key"]


def test_get_prints_the_value_byte_for_byte(
    url: str, root: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff\r\nend")))
    assert main(["client", "--store", url, "put", root, "-c"], [register]) == EXIT_SUCCESS
    capfdbinary.readouterr()
    assert main(["client", "--store", url, "get", root], [register]) == EXIT_SUCCESS
    assert capfdbinary.readouterr().out == b"\x00\xff\r\nend"


def test_get_prints_the_version_behind_the_value(line: CommandLine, root: str) -> None:
    line.run("put", root, "hello")
    value, _, version = line.run("get", root, "-v").partition("\n---\n")
    assert value == "hello"
    assert fields(version)["key"] == root
    assert line.run("get", root, "--hex").startswith("00000000  68 65 6c 6c 6f ")


def test_get_prints_json(line: CommandLine, root: str) -> None:
    [stored] = line.json("put", root, "hello")
    [cells] = line.json("get", root)
    assert (cells["key"], cells["value"], cells["version_id"]) == (root, "hello", stored["version_id"])
    assert "secondary_key" not in cells
    assert line.json("get", root, "--hex")[0]["value"] == "68656c6c6f"


def test_get_finds_neighbours_and_secondary_keys(line: CommandLine, root: str) -> None:
    index = f"index of {root[1:]}"
    for name in "ace":
        line.run("put", f"{root}/{name}", "v", "--index", f"{index}={name}")
    for comparison, name in [("floor", "c"), ("lower", "c"), ("ceiling", "e"), ("higher", "e")]:
        assert line.json("get", f"{root}/d", "-t", comparison)[0]["key"] == f"{root}/{name}"
        [cells] = line.json("get", "d", "--index", index, "-t", comparison)
        assert (cells["key"], cells["secondary_key"]) == (f"{root}/{name}", name)
    error = line.run("get", f"{root}/d", code=EXIT_FAILURE)
    assert error.startswith(f"tidemark: get '{root}/d': no such key")


def test_delete(line: CommandLine, root: str) -> None:
    line.run("put", root, "")
    assert root in line.run("delete", root, "-e", "123456", code=EXIT_FAILURE)
    assert line.run("delete", root) == f"deleted {root}\n"
    assert "no such key" in line.run("delete", root, code=EXIT_FAILURE)
    line.run("put", root, "")
    assert line.json("delete", root) == [{"key": root, "deleted": True}]


def test_delete_range(line: CommandLine, root: str) -> None:
    for name in "abc":
        line.run("put", f"{root}/{name}", "")
    printed = line.run("delete-range", "-s", f"{root}/b", "-e", f"{root}//")
    assert printed == f"deleted all from {root}/b to before {root}//\n"
    assert line.run("list", "-s", f"{root}/", "-e", f"{root}//") == f"{root}/a\n"
    assert line.json("delete-range", "-s", f"{root}/", "-e", f"{root}//") == [
        {"key_min": f"{root}/", "key_max": f"{root}//", "deleted": True}
    ]


def test_list_prints_one_key_a_line(line: CommandLine, root: str) -> None:
    keys = [f"{root}/{name}" for name in ("a", "b\x1b", "c")]
    for key in keys:
        line.run("put", key, "")
    bounds = ["-s", f"{root}/", "-e", f"{root}//"]
    assert line.run("list", *bounds).splitlines() == [keys[0], f"{root}/b\\x1b", keys[2]]
    assert line.json("list", *bounds) == [{"key": key} for key in keys]
    assert line.run("list", "-s", "x", "-e", "x") == ""
    everything = line.run("list").splitlines()
    assert keys[0] in everything
    assert not any(key.startswith("__oxia/") for key in everything)


def test_range_scan_prints_a_table(line: CommandLine, root: str) -> None:
    for name in "ab":
        line.run("put", f"{root}/{name}", f"value of {name}")
    bounds = ["-s", f"{root}/", "-e", f"{root}//"]
    headings, *rows = line.run("range-scan", *bounds).splitlines()
    assert headings.split() == ["KEY", "VALUE"]
    assert rows == [f"{root}/a  value of a", f"{root}/b  value of b"]
    assert "MODIFICATIONS_COUNT" in line.run("range-scan", *bounds, "-v")
    assert [(cells["key"], cells["value"]) for cells in line.json("range-scan", *bounds, "--hex")] == [
        (f"{root}/{name}", f"value of {name}".encode().hex()) for name in "ab"
    ]


def test_an_index_is_listed_in_its_order_over_all_shards(line: CommandLine, root: str) -> None:
    index = f"index of {root[1:]}"
    for number in range(8):
        line.run("put", f"{root}/{7 - number}", "", "--index", f"{index}={number}")
    in_order = [f"{root}/{7 - number}" for number in range(8)]
    assert line.run("list", "--index", index).splitlines() == in_order
    assert line.run("list", "--index", index, "-s", "2", "-e", "4").splitlines() == in_order[2:4]
    assert [cells["key"] for cells in line.json("range-scan", "--index", index)] == in_order


def test_a_sequence_is_followed_up_to_a_count(line: CommandLine, root: str) -> None:
    line.run("put", root, "", "-p", "p", "-d", "3")
    key = f"{root}-{3:020}"
    assert line.run("sequence-updates", root, "-p", "p", "--count", "1") == f"{key}\n"
    assert line.json("sequence-updates", root, "-p", "p", "--count", "1") == [{"key": key}]


def test_a_session_tells_what_happens_to_it(line: CommandLine, root: str) -> None:
    events = line.json("session", "--put", root, "v", "--identity", "me", "--for", "0s")
    assert [cells["event"] for cells in events] == ["opened", "put", "closed"]
    assert events[1]["key"] == root
    assert events[1]["session_id"] is not None
    assert "no such key" in line.run("get", root, code=EXIT_FAILURE)
    headings, *rows = line.run("session", "--for", "0s").splitlines()
    assert headings.split() == ["EVENT", "SESSION_ID", "VERSION_ID", "KEY"]
    assert [row.split()[0] for row in rows] == ["opened", "closed"]


def test_an_abandoned_session_is_left_to_expire(line: CommandLine, root: str) -> None:
    events = line.json("session", "--put", root, "v", "--session-timeout", "5m", "--for", "0s", "--abandon")
    assert [cells["event"] for cells in events] == ["opened", "put", "abandoned"]
    [cells] = line.json("get", root)
    assert (cells["ephemeral"], cells["session_id"]) == (True, events[1]["session_id"])
    line.run("delete", root)


def test_a_session_that_fails_on_the_way_is_closed(line: CommandLine, root: str) -> None:
    bad = "\udc80\ud800"
    assert "UTF-8" in line.run("session", "--put", root, "v", "--put", bad, "v", code=EXIT_USAGE)
    assert "no such key" in line.run("get", root, code=EXIT_FAILURE)


def test_a_lock_is_held_while_a_command_runs(line: CommandLine, root: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"echo $TIDEMARK_NAME $TIDEMARK_TERM > {told}; exit 3"
    assert main(["client", "--store", line.url, "lock", root, "--", "sh", "-c", script], [register]) == 3
    name, first_term = told.read_text().split()
    assert name == root
    line.run("lock", "--wait", "20s", root, "--", "sh", "-c", f"echo $TIDEMARK_TERM > {told}")
    assert int(told.read_text()) > int(first_term)
    assert "cannot be run" in line.run("lock", root, "--", "/nonexistent/command", code=EXIT_FAILURE)
    assert main(["client", "--store", line.url, "lock", root, "--", "sh", "-c", "kill -9 $$"], [register]) == 128 + 9


def test_an_unknown_namespace_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with ServerProcess() as server:
        arguments = ["client", "-a", server.address, "-n", "nowhere", "list"]
        assert main(arguments, [register]) == EXIT_FAILURE
    assert "'nowhere'" in capsys.readouterr().err
