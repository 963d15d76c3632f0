"""The `tidemark` program: finds the commands that the installed packages register, and runs one.

A package registers its commands through the entry-point group `tidemark.commands`. An entry point names a
function that takes the argparse subparsers action and adds to it:

    def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        parser = commands.add_parser("colour", help="paint a record")
        parser.add_argument("key")
        parser.set_defaults(run=paint)

    def paint(arguments: argparse.Namespace) -> int | None:
        raise CommandError("no paint left: fill the can and try again")

`run` returns the exit code, None meaning 0. An entry point has the name of its command, so that only that of the
command that was called is loaded; for the help of the program, and for a word that is none of them, all are. This
module knows no command, so it depends on no package.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from metastore import __version__
from metastore.quantities import parse_duration_s

ENTRY_POINT_GROUP = "tidemark.commands"
SECURITY_SETTINGS = ("tls_cert_file", "tls_key_file", "tls_client_ca_file", "tokens_file", "insecure")

EXIT_SUCCESS = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + 2
EXIT_BROKEN_PIPE = 128 + 13

DESCRIPTION = "A metadata store that speaks Oxia's wire protocol; transactions and topics that stand on it."
EXAMPLES = """\
examples:
  tidemark standalone                            serve everything, topics on 127.0.0.1:6650, data in ./data
  tidemark topics create orders                  a topic
  tidemark metastore --data-dir ./metadata       serve metadata only, on 127.0.0.1:6648
  tidemark client put /greeting hello            write a record
  tidemark client get /greeting --json           read it, for a program
  tidemark broker --store oxia://localhost:6648  serve segments and transactions on 127.0.0.1:6650
  tidemark txn list                              the transactions that are open
  tidemark COMMAND --help                        what a command takes
"""

_COUNT = re.compile(r"\d{1,9}", re.ASCII)

Register = Callable[["argparse._SubParsersAction[argparse.ArgumentParser]"], None]


class CommandError(Exception):
    """Why a command failed, in one line for the person who called it; printed without a traceback."""

    exit_code = EXIT_FAILURE


class UsageError(CommandError):
    """The command was called in a way that cannot work: nothing was tried."""

    exit_code = EXIT_USAGE


class CommandParser(argparse.ArgumentParser):
    """A parser that keeps the line breaks of its help, takes no shortened options, complains in one line."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (try `{self.prog} --help`)\n")


def duration_s(text: str) -> float:
    """What an option reads as a time: 500ms, 30s, 2m, 1h30m, 7d; a bare number is seconds."""
    try:
        return parse_duration_s(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: give one such as 500ms, 90s, 5m or 1h30m") from None


def positive(text: str) -> int:
    """What an option reads as a count, of at least 1."""
    if not _COUNT.fullmatch(text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no count: give a number from 1 to 999999999")
    return int(text)


def add_security_options(parser: argparse.ArgumentParser) -> None:
    """What a service proves, and demands of its clients: the options of SECURITY_SETTINGS."""
    parser.add_argument("--tls-cert-file", type=Path, metavar="FILE", help="serve TLS with this certificate (PEM)")
    parser.add_argument("--tls-key-file", type=Path, metavar="FILE", help="and this key (PEM)")
    parser.add_argument(
        "--tls-client-ca-file", type=Path, metavar="FILE", help="ask clients for a certificate signed by these (PEM)"
    )
    parser.add_argument(
        "--tokens-file", type=Path, metavar="FILE", help="let in only bearers of a token: a line PRINCIPAL TOKEN each"
    )
    parser.add_argument(
        "--insecure", action="store_true", default=None, help="serve a network without TLS and tokens all the same"
    )


def installed_registrations(command: str | None = None) -> list[Register]:
    """The `register` function of a command, or those of all that are installed, in the order of their names."""
    found = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    chosen = (command and found.select(name=command)) or found
    return [entry_point.load() for entry_point in sorted(chosen, key=lambda each: each.name)]


def build_parser(registrations: Iterable[Register]) -> argparse.ArgumentParser:
    """The whole tree of commands and options."""
    parser = CommandParser(prog="tidemark", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("--version", action="version", version=f"tidemark {__version__}")
    commands: argparse._SubParsersAction[argparse.ArgumentParser] = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for register in registrations:
        register(commands)
    return parser


def main(arguments: Sequence[str] | None = None, registrations: Iterable[Register] | None = None) -> int:
    """Runs one command, by default the one this process was called with, and returns its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if registrations is None:
        registrations = installed_registrations(next(iter(words), None))
    parser = build_parser(registrations)
    try:
        parsed = parser.parse_args(words)
        code: int | None = parsed.run(parsed)
        sys.stdout.flush()
    except CommandError as error:
        print(f"tidemark: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return EXIT_BROKEN_PIPE
    return EXIT_SUCCESS if code is None else code


def _discard_output() -> None:
    """Sends what is left in the buffer nowhere: its reader is gone, and the exit would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    # Commands raise the errors of the module `metastore.commandline`; to Python, `__main__` is another one.
    from metastore.commandline import main as program

    sys.exit(program())
