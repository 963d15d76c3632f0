"""`tidemark audit`: its operations and their options. What one does is in running."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from metastore.commandline import positive
from txn.audit import help as texts
from txn.doctor.arguments import duration_ms, name

Commands = argparse._SubParsersAction  # what `add_subparsers` returns; argparse has no public name for it

DEFAULT_STORE = "oxia://localhost:6648/default"
DIALECTS = ("tidemark", "pulsar")
SEVERITIES = ("critical", "error", "warning")
LIMIT = 10
EVERY_MS = 300_000
KEEP_MS = 30 * 86_400_000
RECORD_EVERY_MS = 10_000
ROWS = 100_000


def register(commands: Commands[argparse.ArgumentParser]) -> None:
    """Adds `audit` to the commands of `tidemark`."""
    parser = commands.add_parser(
        "audit",
        help="prove with Spark that no transaction is stuck, lost or leaked",
        description=texts.DESCRIPTION,
        epilog=texts.EXAMPLES,
    )
    operations = parser.add_subparsers(title="operations", metavar="OPERATION", required=True)
    run = _operation(operations, "run", "audit a store once", texts.RUN_DESCRIPTION, texts.RUN_EXAMPLES)
    _add_audit(run)
    watch = _operation(
        operations, "watch", "audit a store again and again", texts.WATCH_DESCRIPTION, texts.WATCH_EXAMPLES
    )
    _add_audit(watch)
    watch.add_argument(
        "--every", type=duration_ms, default=EVERY_MS, metavar="TIME", help="from one audit to the next (5m)"
    )
    watch.add_argument("--times", type=positive, metavar="N", help="stop after so many (never)")
    _add_record(operations)
    rules = _operation(operations, "rules", "list the rules", texts.RULES_DESCRIPTION, texts.RULES_EXAMPLES)
    _add_dialect(rules, None)
    _add_json(rules)
    explain = _operation(operations, "explain", "explain a rule", texts.EXPLAIN_DESCRIPTION, texts.EXPLAIN_EXAMPLES)
    explain.add_argument("rule", type=name, metavar="RULE", help="its name")
    _add_json(explain)


def _run(arguments: argparse.Namespace) -> int:
    # Failures are told in this program's words; gRPC would print its own in between.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from txn.audit.running import perform  # loads what no other command should wait for

    return perform(arguments)


def _operation(
    operations: Commands[argparse.ArgumentParser], name: str, summary: str, description: str, examples: str
) -> argparse.ArgumentParser:
    parser = operations.add_parser(name, help=summary, description=description, epilog=examples)
    parser.set_defaults(run=_run, operation=name)
    return parser


def _add_dialect(parser: argparse.ArgumentParser, default: str | None) -> None:
    what = "whose records the store holds" if default else "only those for such records"
    parser.add_argument("--dialect", choices=DIALECTS, default=default, help=f"{what} ({default or 'all'})")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def _add_record(operations: Commands[argparse.ArgumentParser]) -> None:
    record = _operation(
        operations, "record", "record every change in a ledger", texts.RECORD_DESCRIPTION, texts.RECORD_EXAMPLES
    )
    _add_source(record)
    record.add_argument("--ledger", type=Path, required=True, metavar="DIR", help="the ledger; made if it is not there")
    record.add_argument("--once", action="store_true", help="record what there is now, and end")
    record.add_argument(
        "--every", type=duration_ms, default=RECORD_EVERY_MS, metavar="TIME", help="from one batch to the next (10s)"
    )
    record.add_argument(
        "--rows", type=positive, default=ROWS, metavar="N", help=f"changes in a batch, but one write is whole ({ROWS})"
    )
    record.add_argument(
        "--bridge",
        action="store_true",
        help="where the store no longer keeps what comes next, go on with what it is now, and leave a gap",
    )
    _add_keep(record)
    _add_json(record)


def _add_source(parser: argparse.ArgumentParser) -> None:
    store = parser.add_argument_group("store")
    store.add_argument(
        "--store",
        metavar="URL",
        default=DEFAULT_STORE,
        help=f"the store: oxia://, lmdb://, zk:// ({DEFAULT_STORE})",
    )
    store.add_argument("--namespace", type=name, metavar="NAME", help="its namespace, where the URL does not say")
    _add_dialect(store, DIALECTS[0])  # type: ignore[arg-type]  # a group takes arguments as a parser does
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--master", metavar="URL", help="where Spark runs: local[4], spark://host:7077, yarn (local[*])")
    spark.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark; may be repeated"
    )
    spark.add_argument(
        "--py-files",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="code for executors that do not have it: a wheel, a zip, a .py; may be repeated",
    )


def _add_keep(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--keep", type=duration_ms, default=KEEP_MS, metavar="TIME", help="how long the ledger keeps it (30d)"
    )


def _add_audit(parser: argparse.ArgumentParser) -> None:
    _add_source(parser)
    rules = parser.add_argument_group("rules")
    rules.add_argument("--rule", action="append", default=[], metavar="RULE", help="only this rule; may be repeated")
    rules.add_argument("--grace", type=duration_ms, metavar="TIME", help="how long a step may take (1m)")
    rules.add_argument("--collect-within", type=duration_ms, metavar="TIME", help="how long decided headers may stay")
    rules.add_argument("--hold", type=duration_ms, metavar="TIME", help="how long one may hold a segment (15m)")
    output = parser.add_argument_group("output")
    _add_json(output)  # type: ignore[arg-type]
    output.add_argument("--limit", type=positive, default=LIMIT, metavar="N", help=f"print N of each rule ({LIMIT})")
    output.add_argument("--output", type=Path, metavar="DIR", help="write all violations there, as Parquet")
    output.add_argument("--report", type=Path, metavar="FILE", help="write a report there, as HTML with charts")
    output.add_argument(
        "--ledger", type=Path, metavar="DIR", help="keep what is seen there, and judge by what was seen before"
    )
    _add_keep(output)
    output.add_argument(
        "--fail-on",
        choices=SEVERITIES,
        default=SEVERITIES[-1],
        help="what is less grave leaves the exit code 0 (warning)",
    )
