"""The `tidemark` program: registered commands, exit codes, and messages without tracebacks."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

import metastore
from metastore import __version__
from metastore.commandline import (
    EXIT_BROKEN_PIPE,
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_SUCCESS,
    EXIT_USAGE,
    CommandError,
    UsageError,
    build_parser,
    duration_s,
    installed_registrations,
    main,
    positive,
)


def paint(arguments: argparse.Namespace) -> int | None:
    """A command whose argument says how it ends."""
    endings = {
        "failure": CommandError("no paint left: fill the can"),
        "usage": UsageError("blue and dry exclude each other"),
        "interrupt": KeyboardInterrupt(),
        "bug": RuntimeError("this is a bug"),
    }
    if arguments.ending in endings:
        raise endings[arguments.ending]
    print(f"painted {arguments.ending}")
    return 7 if arguments.ending == "seven" else None


def register_paint(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("paint", help="paint a record", epilog="examples:\n  tidemark paint blue")
    parser.add_argument("ending")
    parser.add_argument("--layers", type=int, default=1)
    parser.set_defaults(run=paint)


def run(*arguments: str) -> int:
    return main(arguments, [register_paint])


@pytest.mark.parametrize(("ending", "code"), [("blue", EXIT_SUCCESS), ("seven", 7)])
def test_a_command_runs_and_its_result_is_the_exit_code(
    ending: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("paint", ending) == code
    assert capsys.readouterr() == (f"painted {ending}\n", "")


@pytest.mark.parametrize(
    ("ending", "code", "message"),
    [
        ("failure", EXIT_FAILURE, "tidemark: no paint left: fill the can\n"),
        ("usage", EXIT_USAGE, "tidemark: blue and dry exclude each other\n"),
        ("interrupt", EXIT_INTERRUPTED, ""),
    ],
)
def test_a_command_that_fails_says_so_in_one_line(
    ending: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("paint", ending) == code
    assert capsys.readouterr() == ("", message)


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="this is a bug"):
        run("paint", "bug")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "tidemark: the following arguments are required: COMMAND (try `tidemark --help`)\n"),
        (
            ["paint"],
            "tidemark paint: the following arguments are required: ending (try `tidemark paint --help`)\n",
        ),
        (
            ["paint", "blue", "--lay", "2"],
            "tidemark: unrecognized arguments: --lay 2 (try `tidemark --help`)\n",
        ),
    ],
)
def test_wrong_usage_is_explained_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == EXIT_USAGE
    assert capsys.readouterr() == ("", message)


def test_an_unknown_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("point")
    assert ended.value.code == EXIT_USAGE
    assert "invalid choice: 'point'" in capsys.readouterr().err


def test_help_shows_commands_and_examples_as_written() -> None:
    text = build_parser([register_paint]).format_help()
    assert "paint a record" in text
    assert "\n  tidemark client put /greeting hello            write a record\n" in text


def test_help_of_a_command_keeps_its_line_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("paint", "--help")
    assert ended.value.code == EXIT_SUCCESS
    assert "examples:\n  tidemark paint blue\n" in capsys.readouterr().out


PAINTSHOP = """
from metastore.commandline import CommandError

def varnish(arguments):
    raise CommandError("the tin is empty")

def register(commands):
    commands.add_parser("varnish", help="cover a record").set_defaults(run=varnish)
"""


@pytest.fixture
def paintshop(tmp_path: Path) -> Path:
    """A folder with an installed package that has one command, which fails."""
    (tmp_path / "paintshop.py").write_text(PAINTSHOP)
    metadata = tmp_path / "paintshop-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: paintshop\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[tidemark.commands]\nvarnish = paintshop:register\n")
    return tmp_path


def test_commands_come_from_the_entry_points_of_installed_packages(
    paintshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(paintshop)])
    assert "cover a record" in build_parser(installed_registrations()).format_help()


def test_a_command_loads_no_other_one(paintshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (paintshop / "paintshop-1.0.dist-info" / "entry_points.txt").write_text(
        "[tidemark.commands]\nvarnish = paintshop:register\nbroken = nowhere:register\n"
    )
    monkeypatch.setattr(sys, "path", [str(paintshop)])
    assert main(["varnish"]) == EXIT_FAILURE
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        main(["--help"])


def test_run_as_a_module_it_knows_the_errors_of_its_commands(paintshop: Path) -> None:
    environment = os.environ | {"PYTHONPATH": f"{paintshop}{os.pathsep}{Path(metastore.__file__).parents[1]}"}
    command = [sys.executable, "-m", "metastore.commandline", "varnish"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (result.stdout, result.stderr) == ("", "tidemark: the tin is empty\n")
    assert result.returncode == EXIT_FAILURE


def test_the_program_runs_and_knows_its_version() -> None:
    command = [sys.executable, "-m", "metastore.commandline", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == (f"tidemark {__version__}\n", "")
    assert result.returncode == EXIT_SUCCESS


ENDLESS = """
import sys
from metastore.commandline import main

def endless(arguments):
    while True:
        print("and on")

def register(commands):
    commands.add_parser("endless").set_defaults(run=endless)

sys.exit(main(["endless"], [register]))
"""


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.readline() == "and on\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == EXIT_BROKEN_PIPE


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("500ms", 0.5),
        ("2m", 120),
        ("1h", 3600),
        ("1h30m", 5400),
        ("7d", 604_800),
        ("1.5s", 1.5),
        ("7", 7),
        ("0.25", 0.25),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 s", "1w", "s1", "1s2", "1e3", "٣s", "٣", "7 "])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no time"):
        duration_s(text)


def test_counts() -> None:
    assert positive("10") == 10
    assert positive("999999999") == 999_999_999


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "1.5", "1e3", "²", "٣", "1000000000"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no count"):
        positive(text)


def test_the_help_of_the_whole_names_an_example_of_each_command() -> None:
    parser = build_parser(installed_registrations())
    for command in ("metastore", "client", "broker", "txn"):
        assert f"  tidemark {command} " in parser.format_help().partition("examples:")[2]
