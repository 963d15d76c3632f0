"""`tidemark txn`: its operations and their options. What one does is in actions."""

from __future__ import annotations

import argparse
import os

from metastore.commandline import positive
from txn.doctor import help as texts
from txn.doctor.arguments import LIMIT, STUCK_AFTER_MS, TABLE_LIMIT, duration_ms, name

Commands = argparse._SubParsersAction  # what `add_subparsers` returns; argparse has no public name for it

DEFAULT_STORE = "oxia://localhost:6648/default"
KINDS = ("auto", "tidemark", "pulsar")
STATES = ("open", "committed", "aborted", "all")


def register(commands: Commands[argparse.ArgumentParser]) -> None:
    """Adds `txn` to the commands of `tidemark`."""
    parser = commands.add_parser(
        "txn", help="look at transactions, and abort them", description=texts.DESCRIPTION, epilog=texts.EXAMPLES
    )
    _add_common(parser)
    operations = parser.add_subparsers(title="operations", metavar="OPERATION", required=True)
    _add_list(operations)
    _add_show(operations)
    _add_why(operations)
    _add_abort(operations)
    _add_stats(operations)


def _run(arguments: argparse.Namespace) -> None:
    # Failures are told in this program's words; gRPC would print its own in between.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from txn.doctor.running import perform  # loads what no other command should wait for

    perform(arguments)


def _add_common(parser: argparse.ArgumentParser, repeated: bool = False) -> None:
    """Where `repeated`, an option that is left out overrules nothing that was given before."""
    group = parser.add_argument_group("store and output")

    def default(value: object) -> object:
        return argparse.SUPPRESS if repeated else value

    group.add_argument(
        "--store",
        metavar="URL",
        default=default(DEFAULT_STORE),
        help=f"the store, of any kind: oxia://, lmdb://, zk://, ... ({DEFAULT_STORE})",
    )
    group.add_argument(
        "--dialect",
        "--records",
        dest="records",
        choices=KINDS,
        default=default(KINDS[0]),
        help="whose records the store holds (auto: look)",
    )
    group.add_argument("--json", action="store_true", default=default(False), help="print one JSON object per line")


def _operation(
    operations: Commands[argparse.ArgumentParser], name: str, summary: str, description: str, examples: str
) -> argparse.ArgumentParser:
    parser = operations.add_parser(name, help=summary, description=description, epilog=examples)
    _add_common(parser, repeated=True)
    parser.set_defaults(run=_run, operation=name)
    return parser


def _add_limit(parser: argparse.ArgumentParser, of_what: str, limit: int = LIMIT) -> None:
    what = f"print at most N {of_what} ({limit})"
    parser.add_argument("--limit", type=positive, default=limit, metavar="N", help=what)


def _add_list(operations: Commands[argparse.ArgumentParser]) -> None:
    parser = _operation(operations, "list", "list transactions", texts.LIST_DESCRIPTION, texts.LIST_EXAMPLES)
    parser.add_argument("--state", choices=STATES, default=STATES[0], help=f"only those in this state ({STATES[0]})")
    parser.add_argument("--owner", type=name, metavar="NAME", help="only those that this principal began")
    parser.add_argument(
        "--segment", type=name, metavar="SEGMENT", help="only those with operation records of this segment"
    )
    parser.add_argument(
        "--older-than", type=duration_ms, default=0, metavar="TIME", help="only those begun before that: 90s, 5m, 1h"
    )
    _add_limit(parser, "transactions")


def _add_show(operations: Commands[argparse.ArgumentParser]) -> None:
    parser = _operation(operations, "show", "show one transaction", texts.SHOW_DESCRIPTION, texts.SHOW_EXAMPLES)
    parser.add_argument("id", type=name, metavar="ID", help="the transaction: md_0_17, or 1_17 of Pulsar")
    parser.add_argument("--follow", action="store_true", help="print what comes, until its records are collected")
    _add_limit(parser, "participants")


def _add_why(operations: Commands[argparse.ArgumentParser]) -> None:
    parser = _operation(operations, "why", "say what holds a segment up", texts.WHY_DESCRIPTION, texts.WHY_EXAMPLES)
    parser.add_argument("segment", type=name, metavar="SEGMENT", help="the segment's name")
    _add_limit(parser, "transactions behind it", TABLE_LIMIT)


def _add_abort(operations: Commands[argparse.ArgumentParser]) -> None:
    parser = _operation(operations, "abort", "abort a transaction", texts.ABORT_DESCRIPTION, texts.ABORT_EXAMPLES)
    parser.add_argument("id", type=name, metavar="ID", help="the transaction")
    parser.add_argument("--dry-run", action="store_true", help="say what it would do, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_stats(operations: Commands[argparse.ArgumentParser]) -> None:
    parser = _operation(operations, "stats", "count transactions", texts.STATS_DESCRIPTION, texts.STATS_EXAMPLES)
    parser.add_argument(
        "--stuck-after",
        type=duration_ms,
        default=STUCK_AFTER_MS,
        metavar="TIME",
        help="a participant is stuck so long after the decision (1m)",
    )
    _add_limit(parser, "rows of each table", TABLE_LIMIT)
