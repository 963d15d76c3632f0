"""`tidemark client` without a store: options, their errors, and the forms of what it shows."""

from __future__ import annotations

import argparse
import itertools
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_helpers import OPERATIONS

from metastore.client.connection import store_url
from metastore.client.output import harmless, hex_dump
from metastore.client.parser import register
from metastore.client.record_options import COMPARISONS
from metastore.client.values import index_entry, sequence_deltas
from metastore.commandline import EXIT_FAILURE, EXIT_SUCCESS, EXIT_USAGE, build_parser, main
from metastore.interface import BlockingStore, Comparison, StoreUrl


def run(*arguments: str) -> int:
    return main(["client", *arguments], [register])


def parsed(*arguments: str) -> argparse.Namespace:
    return build_parser([register]).parse_args(["client", *arguments])


def test_pairs_and_lists() -> None:
    assert index_entry("name=a=b") == ("name", "a=b")
    assert index_entry("=") == ("", "")
    assert sequence_deltas("1") == [1]
    assert sequence_deltas("1,0,5") == [1, 0, 5]


def test_a_terminal_gets_no_orders_from_a_value() -> None:
    assert harmless(b"a\tb\n\x1b[31m\x07\xff") == "a\tb\n\\x1b[31m\\x07\\xff"


def test_a_hex_dump_shows_offset_bytes_and_text() -> None:
    assert hex_dump(b"") == ""
    assert hex_dump(b"0123456789abcdef\x00~\x7f").splitlines() == [
        "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  |0123456789abcdef|",
        "00000010  00 7e 7f                                         |.~.|",
    ]


def test_connection_options_may_stand_on_both_sides() -> None:
    before = parsed("-a", "db:1", "--json", "list")
    behind = parsed("list", "-a", "db:1", "--json")
    assert vars(before) == vars(behind)
    assert (before.address, before.json, before.namespace) == ("db:1", True, None)
    assert parsed("-a", "db:1", "list", "-a", "db:2").address == "db:2"


def url(*arguments: str) -> str:
    with store_url(parsed(*arguments, "list")) as made:
        return made


def test_the_short_way_to_name_a_server() -> None:
    assert url() == "oxia://localhost:6648/default?request_timeout=10s"
    assert url("-a", "[::1]:7000", "-n", "other", "--timeout", "2m") == "oxia://[::1]:7000/other?request_timeout=120s"
    assert url("--key-sorting", "natural", "--tls", "--timeout", "500ms") == (
        "oxia://localhost:6648/default?key_sorting=natural&tls=true&request_timeout=0.5s"
    )
    files = ("--ca-file", "a b", "--cert-file", "c", "--key-file", "k", "--auth-token-file", "t")
    assert url(*files) == (
        "oxia://localhost:6648/default?ca_file=a+b&cert_file=c&key_file=k&request_timeout=10s&token_file=t"
    )
    assert url("--store", "lmdb:///x") == "lmdb:///x"
    StoreUrl.parse(url("-a", "b:1", *files))


def test_a_token_on_the_command_line_becomes_a_file_for_as_long_as_it_is_needed() -> None:
    with store_url(parsed("--auth-token", "secret", "list")) as made:
        path = Path(StoreUrl.parse(made).options["token_file"])
        assert path.read_text() == "secret"
        assert path.stat().st_mode & 0o077 == 0
    assert not path.exists()


def test_the_comparisons_are_those_of_the_contract() -> None:
    assert set(COMPARISONS) == {comparison.value for comparison in Comparison}


def test_options_that_add_up() -> None:
    put = parsed("put", "k", "v", "-d", "1,2", "-d", "3", "--index", "a=1", "--index", "a=2", "-e", "-1")
    assert put.sequence_keys_deltas == [1, 2, 3]
    assert put.indexes == [("a", "1"), ("a", "2")]
    assert put.expected_version == -1
    assert parsed("put", "k", "v").indexes == []
    assert parsed("session", "--put", "a", "1", "--put", "b", "2").puts == [["a", "1"], ["b", "2"]]
    assert parsed("lock", "--wait", "5s", "/l", "--", "sh", "-c", "x").command[-3:] == ["sh", "-c", "x"]
    assert parsed("elect", "/e", "me").command == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_has_help_with_an_example(operation: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        run(operation, "--help")
    assert ending.value.code == EXIT_SUCCESS
    text = capsys.readouterr().out
    assert f"  tidemark client {operation}" in text
    assert "--address" in text


def examples(text: str) -> list[str]:
    """The lines of a help text that call the program."""
    return [line.strip() for line in text.splitlines() if line.startswith("  tidemark client ")]


@pytest.mark.parametrize("operation", ["", *OPERATIONS])
def test_every_example_is_a_call_that_works(operation: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(*filter(None, [operation]), "--help")
    for example in examples(capsys.readouterr().out):
        words = shlex.split(example, comments=True)
        call = list(itertools.takewhile(lambda word: word not in ("<", ">"), words))
        arguments = build_parser([register]).parse_args(call[1:])
        assert arguments.operation in OPERATIONS


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["put"], "required: KEY"),
        (["put", "k"], "either a VALUE or --std-in"),
        (["put", "k", "v", "--std-in"], "either a VALUE or --std-in"),
        (["put", "k", "v", "--index", "a"], "NAME=SECONDARY"),
        (["put", "k", "v", "-d", "x"], "no deltas"),
        (["put", "k", "v", "-d", "1"], "needs a partition key"),
        (["put", "k", "v", "-e", "-2"], "ABSENT"),
        (["get", "k", "-t", "nearest"], "invalid choice: 'nearest'"),
        (["delete-range", "-s", "a"], "required: -e/--key-max"),
        (["sequence-updates", "k"], "required: -p/--partition-key"),
        (["list", "-s", "b", "-e", "a"], "ends before it starts"),
        (["delete-range", "-s", "a", "-e", ""], "needs an end"),
        (["watch", "/a//"], "no range"),
        (["watch", "--exact"], "which key"),
        (["watch", "--from-token", "x", "--no-snapshot"], "without a snapshot anyway"),
        (["watch", "--from-token", "x"], "no token"),
        (["lock", "/l", "--json"], "is no command"),
        (["elect", "/l"], "required: VALUE"),
        (["notifications", "--count", "0"], "no count"),
        (["list", "--timeout", "soon"], "no time"),
        (["list", "--timeout", "0s"], "request_timeout"),
        (["list", "-a", "a b"], "names no server"),
        (["list", "--auth-token", "two words"], "no bearer token"),
        (["list", "--auth-token", "a", "--auth-token-file", "b"], "two tokens"),
        (["list", "--key-sorting", "random"], "invalid choice: 'random'"),
        (["list", "--cert-file", "cert.pem"], "give both"),
        (["session", "--session-timeout", "0s"], "session timeout of 0 ms"),
        ([], "required: OPERATION"),
    ],
)
def test_a_call_that_makes_no_sense(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    # What a store has to judge is judged by one in memory, unless the server is what it is about.
    is_server = bool({"-a", "--timeout", "--auth-token", "--cert-file", "--key-sorting"} & set(arguments))
    try:
        code: object = run(*([] if is_server else ["--store", "memory://"]), *arguments)
    except SystemExit as ending:
        code = ending.code
    output = capsys.readouterr()
    assert code == EXIT_USAGE
    assert output.out == ""
    assert complaint in output.err
    assert output.err.count("\n") == 1


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "ca.pem")
    assert run("list", "--ca-file", missing) == EXIT_USAGE
    assert missing in capsys.readouterr().err


def test_listing_the_commands_loads_no_store() -> None:
    program = (
        "import sys; from metastore.commandline import build_parser; "
        "from metastore.client.parser import register; "
        "build_parser([register]); sys.exit(bool({'grpc', 'asyncio', 'metastore.interface'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_store_and_a_server_are_one_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["-a", "b:1"], ["--tls"], ["--auth-token", "t"], ["-n", "other"]):
        assert run("--store", "memory://", *arguments, "list") == EXIT_USAGE
        assert "one of the two" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["x", "ftp://x", "lmdb://host/x", "memory://?x=1"])
def test_a_store_that_has_no_such_url(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--store", url, "list") == EXIT_USAGE
    assert url in capsys.readouterr().err


def test_a_directory_in_use_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with BlockingStore.open(f"lmdb://{tmp_path}"):
        assert run("--store", f"lmdb://{tmp_path}", "list") == EXIT_FAILURE
    assert "in use" in capsys.readouterr().err
