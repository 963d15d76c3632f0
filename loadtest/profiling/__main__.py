"""`python -m loadtest.profiling LINE...`: profiles lines of the benchmark."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtest.bench.bench import Group, open_bench
from loadtest.bench.model import BenchError, Line
from loadtest.bench.servers import tidemark
from loadtest.bench.settings import DEFAULT_PLAN, Settings
from loadtest.bench.suite import all_groups
from loadtest.profiling.profiler import Profile, profile
from loadtest.profiling.stacks import shares
from metastore.tables import write_rows

LINES = ("wire/put-100", "curve-outstanding/get-64", "txn/transact-64", "topics/publish-batched-4")
CURVE_RECORDS = 1_000_000
"""How far the lines of curves go that can be named."""
SECONDS = 10
ROWS = 15
PACKAGE_WORDS = 2

EXAMPLES = """\
examples:
  python -m loadtest.profiling                               # the four hottest paths
  python -m loadtest.profiling wire/put-one-stream --seconds 20
  python -m loadtest.bench --list                            # the names of lines; --curves --list: of curves
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.profiling",
        description="Says where the processors' time goes while lines of the benchmark are measured.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("lines", metavar="LINE", nargs="*", default=LINES, help=f"which ({', '.join(LINES)})")
    parser.add_argument("--seconds", type=int, default=SECONDS, metavar="N", help=f"of each ({SECONDS})")
    parser.add_argument("--rows", type=int, default=ROWS, metavar="N", help=f"functions to show of each ({ROWS})")
    options = parser.parse_args(arguments)
    settings = Settings(DEFAULT_PLAN, (tidemark(),), Path(tempfile.gettempdir()), "lean")
    curves = replace(settings, curve_records=CURVE_RECORDS)
    groups = [*all_groups(settings), *all_groups(curves)]
    known = {group.label(line): (group, line) for group in groups for line in group.lines}
    try:
        for name in options.lines:
            if name not in known:
                raise BenchError(
                    f"no line is named {name!r}; python -m loadtest.bench [--curves] --list names them all"
                )
            _profile(settings, name, *known[name], options.seconds, options.rows)
    except (BenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _profile(settings: Settings, name: str, group: Group[Any], line: Line[Any], seconds: int, rows: int) -> None:
    print(f"{name}: {line.title}", flush=True)
    with open_bench(settings) as bench:
        sample, profiles = profile(bench, group, line, seconds)
    figures = ", ".join(f"{metric.key} {sample[metric.key]:,.4g} {metric.unit}" for metric in line.metrics)
    print(f"measured meanwhile: {figures}")
    for each in profiles:
        _show(each, rows)
    print()


def _show(each: Profile, rows: int) -> None:
    print(f"\n{each.name}: {each.cores:.2f} cores")
    for depth, kept in ((PACKAGE_WORDS, rows // 2), (None, rows)):
        found = shares(each.stacks, depth)[:kept]
        what = "function" if depth is None else "package"
        table = [{"own": f"{share.own:.1%}", "within": f"{share.within:.1%}", what: share.name} for share in found]
        write_rows(["own", "within", what], table, sys.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
