"""`tidemark load`: its operations and their options."""

from __future__ import annotations

import argparse
from pathlib import Path

from loadtest.command import help as texts
from metastore.commandline import duration_s, positive

Commands = argparse._SubParsersAction  # what `add_subparsers` returns; argparse has no public name for it

DEFAULT_TIME_S = 60.0
TIME_S_MAX = 7 * 24 * 3_600.0
MASTER_PORT = 5557


def register(commands: Commands[argparse.ArgumentParser]) -> None:
    """Adds `load` to the commands of `tidemark`."""
    parser = commands.add_parser(
        "load", help="load a running service, with locust", description=texts.DESCRIPTION, epilog=texts.EXAMPLES
    )
    operations = parser.add_subparsers(title="operations", metavar="OPERATION", required=True)
    _add_run(operations)
    _add_worker(operations)
    scenarios = operations.add_parser(
        "scenarios", help="what there is to run", description="Lists the scenarios, with their usual rates."
    )
    scenarios.add_argument("--json", action="store_true", help="print one JSON object per line")
    scenarios.set_defaults(run=_scenarios)
    show = operations.add_parser(
        "show",
        help="a stored result again",
        description="Shows a result that `tidemark load run --result` has stored, or makes its page.",
        epilog=texts.SHOW_EXAMPLES,
    )
    show.add_argument("result", metavar="FILE", type=Path, help="the stored result")
    show.add_argument("--html", metavar="FILE", type=Path, help="write the page with charts there")
    show.add_argument("--json", action="store_true", help="print a summary as one JSON object")
    show.set_defaults(run=_show)


def _add_run(operations: Commands[argparse.ArgumentParser]) -> None:
    from loadtest.users.options import add_options, rate

    run = operations.add_parser("run", help="run a scenario", description=texts.DESCRIPTION, epilog=texts.RUN_EXAMPLES)
    run.add_argument("scenario", metavar="SCENARIO", help="one of `tidemark load scenarios`")
    run.add_argument("--rate", type=rate, metavar="N", help="arrivals a second (default: the scenario's own)")
    run.add_argument("--time", type=_time, default=DEFAULT_TIME_S, metavar="TIME", help="how long (default 60s)")
    add_options(run)
    run.add_argument("--html", metavar="FILE", type=Path, help="write a page with charts; locust's own beside it")
    run.add_argument("--csv", metavar="PREFIX", help="write locust's CSV files, whose names begin so")
    run.add_argument("--result", metavar="FILE", type=Path, help="store the whole result as JSON")
    run.add_argument("--json", action="store_true", help="print a summary as one JSON object")
    run.add_argument("--quiet", action="store_true", help="say nothing while it goes on")
    spread = run.add_mutually_exclusive_group()
    spread.add_argument("--processes", type=positive, metavar="N", help="load from N processes of this machine")
    spread.add_argument("--workers", type=positive, metavar="N", help="load from N workers that come from elsewhere")
    run.add_argument(
        "--master-port", type=_port, default=MASTER_PORT, metavar="PORT", help=f"where they come ({MASTER_PORT})"
    )
    run.set_defaults(run=_run)


def _add_worker(operations: Commands[argparse.ArgumentParser]) -> None:
    worker = operations.add_parser(
        "worker",
        help="a process of a run that is led elsewhere",
        description="Does its part of a run that `tidemark load run --workers` leads, and ends with it.",
        epilog=texts.WORKER_EXAMPLES,
    )
    worker.add_argument("--master-host", metavar="HOST", default="127.0.0.1", help="who leads (default 127.0.0.1)")
    worker.add_argument(
        "--master-port", type=_port, default=MASTER_PORT, metavar="PORT", help=f"and where ({MASTER_PORT})"
    )
    worker.set_defaults(run=_worker)


def _run(arguments: argparse.Namespace) -> int:
    from loadtest.command.running import run  # loads what no other command should wait for

    return run(arguments)


def _worker(arguments: argparse.Namespace) -> int:
    from loadtest.command.running import work

    return work(arguments)


def _scenarios(arguments: argparse.Namespace) -> int:
    from loadtest.command.telling import list_scenarios

    return list_scenarios(arguments.json)


def _show(arguments: argparse.Namespace) -> int:
    from loadtest.command.running import show

    return show(arguments)


def _time(text: str) -> float:
    found = duration_s(text)
    if not 1 <= found <= TIME_S_MAX or found != int(found):
        raise argparse.ArgumentTypeError(f"{text!r}: give whole seconds, from 1s to 7d")
    return found


def _port(text: str) -> int:
    found = positive(text)
    if found > 65_534:  # locust takes the one behind it as well
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give one from 1 to 65534")
    return found
