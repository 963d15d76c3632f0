"""The command line of the benchmark: options in, table on stdout, JSON in a file, progress on stderr."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadtest.bench.bench import Group, open_bench
from loadtest.bench.comparison import LIMITS, PACE, compare
from loadtest.bench.generator import CLIENTS
from loadtest.bench.model import BenchError, Line
from loadtest.bench.pages import names_run, write_page
from loadtest.bench.peers.programs import peer_versions, peers_here
from loadtest.bench.progress import Progress
from loadtest.bench.report import Report
from loadtest.bench.runner import Runner, selected
from loadtest.bench.servers import oxia, tidemark
from loadtest.bench.settings import (
    CURVE_RECORDS,
    DEFAULT_PLAN,
    QUICK_CURVE_RECORDS,
    QUICK_PLAN,
    QUICK_SPARK_ROWS,
    SPARK_ROWS,
    Settings,
)
from loadtest.bench.stored import PAGES, read_report
from loadtest.bench.suite import all_derived, all_groups
from loadtest.bench.table import render, render_changes
from loadtest.machine import VOLATILE_FILE_SYSTEMS, describe_machine, describe_versions
from metastore.clock import Clock, SystemClock

OXIA_VARIABLE = "OXIA_BIN"
REPEATS_MAX = 100
CURVE_RECORDS_ALLOWED = tuple(10**power for power in range(3, 8))
SPARK_ROWS_MIN, SPARK_ROWS_MAX = 10_000, 100_000_000
HOW_COMPARED = "lines with one side need limits/echo-unary and limits/fdatasync-256 in both runs"
EXIT_INCOMPLETE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

DESCRIPTION = """\
Measures the metastore beside a real Oxia and beside the limits of this machine, in one run, writes synced.
Oxia takes part if the environment variable OXIA_BIN names its binary."""

EXAMPLES = """\
examples:
  python -m loadtest.bench                              everything, in less than half an hour
  OXIA_BIN=~/bin/oxia python -m loadtest.bench --quick  a first look, beside Oxia, in six or seven minutes
  python -m loadtest.bench --only put --only 'limits/*' some lines (--list names them all)
  python -m loadtest.bench --json bench.json            also the result as JSON, with every repeat
  OXIA_BIN=~/bin/oxia python -m loadtest.bench --peers  beside Oxia, etcd and ZooKeeper
  python -m loadtest.bench --curves --only '*overload*' what becomes of twice the load it can bear
  python -m loadtest.bench --against bench.json         what became better or worse beyond its spread
  python -m loadtest.bench --client sync                as a program on grpcio's public interface sees it

exit status: 0 if everything was measured, whatever the verdicts; 1 if some lines could not be measured;
2 for bad usage."""


def main(arguments: Sequence[str]) -> int:
    """Runs the benchmark; returns the exit status."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        settings = _settings(options, os.environ)
        if options.list:
            print("\n".join(f"{g.label(line):32} {line.title}" for g in all_groups(settings) for line in g.lines))
            return 0
        stored = {path.name: read_report(path) for path in options.against or sorted(PAGES.glob("*.json"))}
        report = _run(settings, options, SystemClock())
        print("\n\n".join([render(report).rstrip(), *_changes(report, stored, is_asked_for=bool(options.against))]))
        if options.json is not None:
            _store(report, options.json)
    except (BenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_INCOMPLETE if report.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.bench",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repeats, at most 100,000 records")
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        action="append",
        default=[],
        help="only lines whose name contains this or matches this shell pattern; may be repeated",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="the same work on Tidemark, Oxia, etcd and ZooKeeper, and nothing else",
    )
    parser.add_argument("--curves", action="store_true", help="resource curves, and nothing else")
    parser.add_argument(
        "--curve-records",
        metavar="N",
        type=_curve_records,
        help=f"the most records of a curve, a power of ten (default {CURVE_RECORDS:,}, quick {QUICK_CURVE_RECORDS:,})",
    )
    parser.add_argument("--repeats", metavar="N", type=_repeats, help="how often each line is measured on each side")
    parser.add_argument(
        "--spark-rows",
        metavar="N",
        type=_rows,
        help=f"operation records that the lines of Spark read (default {SPARK_ROWS:,}, quick {QUICK_SPARK_ROWS:,})",
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        type=Path,
        help="also write the result as JSON; a page beside it that names it gets its table and charts",
    )
    parser.add_argument(
        "--against",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="compare with this stored run; may be repeated (default: all that docs/benchmarks has)",
    )
    parser.add_argument(
        "--client",
        choices=sorted(CLIENTS),
        default="lean",
        help="how the load generator drives gRPC (default: %(default)s)",
    )
    parser.add_argument(
        "--directory",
        metavar="DIR",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where the stores' folders are made, on the disk to be measured (default: %(default)s)",
    )
    parser.add_argument("--list", action="store_true", help="name all lines and end")
    return parser


def _repeats(text: str) -> int:
    number = int(text)
    if not 1 <= number <= REPEATS_MAX:
        raise argparse.ArgumentTypeError(f"must be 1 to {REPEATS_MAX}, not {number}")
    return number


def _rows(text: str) -> int:
    number = int(text)
    if not SPARK_ROWS_MIN <= number <= SPARK_ROWS_MAX:
        raise argparse.ArgumentTypeError(f"must be {SPARK_ROWS_MIN} to {SPARK_ROWS_MAX}, not {number}")
    return number


def _curve_records(text: str) -> int:
    number = int(text)
    if number not in CURVE_RECORDS_ALLOWED:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(map(str, CURVE_RECORDS_ALLOWED))}, not {number}")
    return number


def _settings(options: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    plan = QUICK_PLAN if options.quick else DEFAULT_PLAN
    if options.repeats is not None:
        plan = replace(plan, repeats=options.repeats, slow_repeats=min(options.repeats, plan.slow_repeats))
    if not options.directory.is_dir():
        raise BenchError(f"--directory {options.directory}: no such directory")
    if options.json is not None and not options.json.absolute().parent.is_dir():
        raise BenchError(f"--json {options.json}: no such directory")
    programs = [tidemark()]
    binary = Path(environment[OXIA_VARIABLE]) if environment.get(OXIA_VARIABLE) else None
    if binary is not None:
        if not os.access(binary, os.X_OK) or not binary.is_file():
            raise BenchError(f"{OXIA_VARIABLE}={binary}: no such program")
        programs.append(oxia(binary))
    rows = options.spark_rows or (QUICK_SPARK_ROWS if options.quick else SPARK_ROWS)
    if options.peers and options.curves:
        raise BenchError("--peers and --curves are two runs")
    if options.peers and binary is None:
        raise BenchError(f"--peers: {OXIA_VARIABLE} must name the binary of an Oxia server")
    peers = peers_here(environment) if options.peers else ()
    curves = options.curve_records or (QUICK_CURVE_RECORDS if options.quick else CURVE_RECORDS)
    return Settings(
        plan,
        tuple(programs),
        options.directory,
        options.client,
        binary,
        peers,
        curves if options.curves else None,
        rows,
    )


def _run(settings: Settings, options: argparse.Namespace, clock: Clock) -> Report:
    work = selected(all_groups(settings), options.only)
    if not work:
        raise BenchError(f"no line matches {' or '.join(options.only)}; --list names them all")
    work = _with_pace(work, settings)
    machine = describe_machine(settings.directory)
    progress = Progress(sys.stderr, clock)
    if machine["file_system"] in VOLATILE_FILE_SYSTEMS:
        progress.note(
            f"warning: {settings.directory} is on {machine['file_system']}, where a synced write costs "
            "nothing; choose a disk with --directory"
        )
    report = Report(
        started_at=datetime.fromtimestamp(clock.wall_ms() / 1000, UTC).isoformat(timespec="seconds"),
        command=["python", "-m", "loadtest.bench", *sys.argv[1:]],
        plan={**asdict(settings.plan), "client": settings.client},
        machine=machine,
        versions={**describe_versions(settings.oxia_binary), **(peer_versions(os.environ) if settings.peers else {})},
    )
    started_s = clock.monotonic_s()
    with open_bench(settings) as bench:
        Runner(bench, report, progress).run(work, all_derived(settings))
    progress.finish()
    report.duration_s = clock.monotonic_s() - started_s
    return report


def _with_pace(
    work: list[tuple[Group[Any], list[Line[Any]]]], settings: Settings
) -> list[tuple[Group[Any], list[Line[Any]]]]:
    """The work, and the two limits that make figures of two runs comparable, if it is about more than limits."""
    names = {group.label(line) for group, lines in work for line in lines}
    if any(group.name == LIMITS for group, _lines in work) or not names:
        return work
    return [*selected(all_groups(settings), [name for name, _metric in PACE]), *work]


def _changes(report: Report, stored: Mapping[str, Report], *, is_asked_for: bool) -> Iterator[str]:
    """What became better or worse since each stored run that has lines in common with this one."""
    for name, before in stored.items():
        changes = compare(before, report)
        if changes:
            yield render_changes(name, before, report.machine, changes)
        elif is_asked_for:
            yield f"Against {name}: nothing that can be compared; {HOW_COMPARED}"


def _store(report: Report, path: Path) -> None:
    path.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    for page in path.absolute().parent.glob("*.md"):
        if names_run(page, path.name):
            write_page(page)


def _interrupt(_number: int, _frame: object) -> None:
    """SIGTERM ends a run like Ctrl-C: everything that was started is ended too."""
    raise KeyboardInterrupt
