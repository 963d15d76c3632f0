"""`tidemark client` without a server: options, their errors, and the forms of what it shows."""

from __future__ import annotations

import argparse
import itertools
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from metastore.client.command import register
from metastore.client.command_output import harmless, hex_dump, timestamp
from metastore.client.command_values import (
    duration_s,
    index_entry,
    positive,
    sequence_deltas,
    start_offset,
)
from metastore.commandline import EXIT_FAILURE, EXIT_SUCCESS, EXIT_USAGE, build_parser, main
from support.ports import free_port

OPERATIONS = (
    "put",
    "get",
    "delete",
    "delete-range",
    "list",
    "range-scan",
    "notifications",
    "sequence-updates",
    "session",
)


def run(*arguments: str) -> int:
    return main(["client", *arguments], [register])


def parsed(*arguments: str) -> argparse.Namespace:
    return build_parser([register]).parse_args(["client", *arguments])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("500ms", 0.5), ("2m", 120), ("1h", 3600), ("1h30m", 5400), ("1.5s", 1.5), ("7", 7)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 s", "1d", "s1", "1e3", "٣s", "7 "])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no time"):
        duration_s(text)


def test_pairs_and_numbers() -> None:
    assert index_entry("name=a=b") == ("name", "a=b")
    assert index_entry("=") == ("", "")
    assert sequence_deltas("1") == [1]
    assert sequence_deltas("1,0,5") == [1, 0, 5]
    assert start_offset("120") == (None, 120)
    assert start_offset("-1") == (None, -1)
    assert start_offset("3=-1") == (3, -1)
    assert positive("10") == 10


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "1.5", "²"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no count"):
        positive(text)


@pytest.mark.parametrize("text", ["", "=1", "a=1", "1=", "1=2=3", "1,2"])
def test_what_is_no_offset(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no offset"):
        start_offset(text)


def test_times_are_in_utc_and_to_the_millisecond() -> None:
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert timestamp(2**64 - 1) == f"{2**64 - 1} ms"


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
    assert (before.address, before.json, before.namespace) == ("db:1", True, "default")
    assert parsed("-a", "db:1", "list", "-a", "db:2").address == "db:2"


def test_the_defaults_are_those_of_an_oxia_server() -> None:
    options = parsed("list")
    assert (options.address, options.namespace, options.request_timeout) == (
        "localhost:6648",
        "default",
        30.0,
    )


def test_options_that_add_up() -> None:
    put = parsed("put", "k", "v", "-d", "1,2", "-d", "3", "--index", "a=1", "--index", "a=2", "-e", "-1")
    assert put.sequence_keys_deltas == [1, 2, 3]
    assert put.indexes == [("a", "1"), ("a", "2")]
    assert put.expected_version == -1
    assert parsed("put", "k", "v").indexes == []
    assert parsed("session", "--put", "a", "1", "--put", "b", "2").puts == [["a", "1"], ["b", "2"]]
    assert parsed("notifications", "--after-offset", "-1", "--after-offset", "0=5").offsets == [
        (None, -1),
        (0, 5),
    ]


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
        (["put", "k", "v", "-e", "9223372036854775808"], "out of range"),
        (["get", "k", "-t", "nearest"], "invalid choice: 'nearest'"),
        (["delete-range", "-s", "a"], "required: -e/--key-max"),
        (["sequence-updates", "k"], "required: -p/--partition-key"),
        (["list", "--index", "i"], "without an end"),
        (["notifications", "--count", "0"], "no count"),
        (["list", "--request-timeout", "soon"], "no time"),
        (["list", "--request-timeout", "0s"], "leaves no time"),
        (["list", "-a", "nowhere"], "HOST:PORT"),
        (["list", "--auth-token", "two words"], "no bearer token"),
        (["list", "--auth-token", "a", "--auth-token-file", "b"], "two tokens"),
        (["list", "--key-sorting", "random"], "invalid choice: 'random'"),
        (["list", "--cert-file", "cert.pem"], "give both"),
        (["session", "--session-timeout", "0s"], "session timeout in ms 0 is out of range"),
        ([], "required: OPERATION"),
    ],
)
def test_a_call_that_makes_no_sense(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = run(*arguments)
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


def test_no_server_is_a_failure_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert run("list", "-a", address) == EXIT_FAILURE
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("tidemark: shard assignments of namespace 'default'")
    assert address in output.err
    assert output.err.count("\n") == 1


def test_listing_the_commands_does_not_load_grpc() -> None:
    program = (
        "import sys; from metastore.commandline import build_parser; "
        "from metastore.client.command import register; "
        "build_parser([register]); sys.exit('grpc' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
