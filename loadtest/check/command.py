"""`tidemark check`: its operations and their options. What one does is in running."""

from __future__ import annotations

import argparse
import os

from loadtest.check import help as texts
from loadtest.check.profiles import SIZES
from metastore.commandline import duration_s

Commands = argparse._SubParsersAction  # what `add_subparsers` returns; argparse has no public name for it

DEFAULT_TARGET = "oxia://localhost:6648"
DEFAULT_PREFIX = "/tidemark-check-perf"
DEFAULT_TIME_S = 60.0
TIME_S_MIN = 1.0
TIME_S_MAX = 3_600.0


def register(commands: Commands[argparse.ArgumentParser]) -> None:
    """Adds `check` to the commands of `tidemark`."""
    parser = commands.add_parser(
        "check", help="say whether a running service is fast enough", description=texts.DESCRIPTION
    )
    operations = parser.add_subparsers(title="operations", metavar="OPERATION", required=True)
    perf = operations.add_parser(
        "perf",
        help="a verdict in a minute, and what limits the service",
        description=texts.PERF_DESCRIPTION,
        epilog=texts.PERF_EXAMPLES,
    )
    perf.add_argument(
        "target", metavar="URL", nargs="*", help=f"stores and brokers to check, by turns ({DEFAULT_TARGET})"
    )
    perf.add_argument(
        "--profile",
        choices=SIZES,
        action="append",
        default=[],
        help="only this size; may be repeated (all, up to the first that fails)",
    )
    perf.add_argument("--time", type=_time, default=DEFAULT_TIME_S, metavar="TIME", help="how long in all (60s)")
    perf.add_argument(
        "--prefix",
        type=_prefix,
        default=DEFAULT_PREFIX,
        metavar="PREFIX",
        help=f"what is written is below this, and in a topic of this name ({DEFAULT_PREFIX})",
    )
    perf.add_argument(
        "--discard", action="store_true", help="first remove what an earlier check has left there, if it is that"
    )
    perf.add_argument(
        "--metrics",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="where the services' /metrics are; may be repeated (ports 8080 and 8090 of the target's hosts)",
    )
    perf.add_argument("--seed", type=int, default=0, metavar="N", help="of the moments of arrival (0)")
    perf.add_argument("--json", action="store_true", help="print one JSON object per line")
    perf.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Failures are told in this program's words; gRPC would print its own in between.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from loadtest.check.running import perform  # loads what no other command should wait for

    arguments.target = arguments.target or [DEFAULT_TARGET]
    return perform(arguments)


def _time(text: str) -> float:
    seconds = duration_s(text)
    if not TIME_S_MIN <= seconds <= TIME_S_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}: a check takes from {TIME_S_MIN:g}s to {TIME_S_MAX / 60:g}m")
    return seconds


def _prefix(text: str) -> str:
    """More than slashes, so that nobody empties a whole store, and one a topic can be named by."""
    words = text.strip("/").split("/")
    if not text.startswith("/") or not all(word and word.replace("-", "").isalnum() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is no prefix: give one such as {DEFAULT_PREFIX} or /a/b-1")
    return text
