"""The command line of the benchmark: options in, table on stdout, JSON in a file, progress on stderr."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from loadtest.bench.bench import open_bench
from loadtest.bench.generator import CLIENTS
from loadtest.bench.machine import VOLATILE_FILE_SYSTEMS, describe_machine, describe_versions
from loadtest.bench.model import BenchError
from loadtest.bench.progress import Progress
from loadtest.bench.report import Report
from loadtest.bench.runner import Runner, selected
from loadtest.bench.servers import oxia, tidemark
from loadtest.bench.settings import DEFAULT_PLAN, QUICK_PLAN, QUICK_SPARK_ROWS, SPARK_ROWS, Settings
from loadtest.bench.suite import all_derived, all_groups
from loadtest.bench.table import render
from metastore.clock import Clock, SystemClock

OXIA_VARIABLE = "OXIA_BIN"
REPEATS_MAX = 100
SPARK_ROWS_MIN, SPARK_ROWS_MAX = 10_000, 100_000_000
EXIT_INCOMPLETE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

DESCRIPTION = """\
Measures the metastore beside a real Oxia and beside the limits of this machine, in one run, writes synced.
Oxia takes part if the environment variable OXIA_BIN names its binary."""

EXAMPLES = """\
examples:
  python -m loadtest.bench                              everything, in less than ten minutes
  OXIA_BIN=~/bin/oxia python -m loadtest.bench --quick  a first look, beside Oxia, in less than 90 seconds
  python -m loadtest.bench --only put --only 'limits/*' some lines (--list names them all)
  python -m loadtest.bench --json bench.json            also the result as JSON, with every repeat
  python -m loadtest.bench --client sync                as a program on grpcio's public interface sees it

exit status: 0 if everything was measured, whatever the verdicts; 1 if some lines could not be measured;
2 for bad usage."""


def main(arguments: Sequence[str]) -> int:
    """Runs the benchmark; returns the exit status."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        settings, oxia_binary = _settings(options, os.environ)
        if options.list:
            print("\n".join(f"{g.label(line):32} {line.title}" for g in all_groups(settings) for line in g.lines))
            return 0
        report = _run(settings, options, oxia_binary, SystemClock())
        print(render(report))
        if options.json is not None:
            options.json.write_text(json.dumps(report.as_json(), indent=1) + "\n")
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
    parser.add_argument("--repeats", metavar="N", type=_repeats, help="how often each line is measured on each side")
    parser.add_argument(
        "--spark-rows",
        metavar="N",
        type=_rows,
        help=f"operation records that the lines of Spark read (default {SPARK_ROWS:,}, quick {QUICK_SPARK_ROWS:,})",
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the result as JSON")
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


def _settings(options: argparse.Namespace, environment: Mapping[str, str]) -> tuple[Settings, Path | None]:
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
    return Settings(plan, tuple(programs), options.directory, options.client, rows), binary


def _run(settings: Settings, options: argparse.Namespace, oxia_binary: Path | None, clock: Clock) -> Report:
    work = selected(all_groups(settings), options.only)
    if not work:
        raise BenchError(f"no line matches {' or '.join(options.only)}; --list names them all")
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
        versions=describe_versions(oxia_binary),
    )
    started_s = clock.monotonic_s()
    with open_bench(settings) as bench:
        Runner(bench, report, progress).run(work, all_derived(settings))
    progress.finish()
    report.duration_s = clock.monotonic_s() - started_s
    return report


def _interrupt(_number: int, _frame: object) -> None:
    """SIGTERM ends a run like Ctrl-C: everything that was started is ended too."""
    raise KeyboardInterrupt
