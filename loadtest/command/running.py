"""Starts locust, which starts engines; reads its result, and tells what it found."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from loadtest.command.telling import complaints_of, tell
from loadtest.outcomes.result import SCHEMA
from loadtest.report import page_of
from loadtest.scenarios import MIXES, SCENARIOS, rate_of
from loadtest.users.options import words_of
from metastore.commandline import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_SUCCESS, CommandError, UsageError

LOCUSTFILE = Path(__file__).resolve().parents[1] / "users" / "locustfile.py"
USERS_MAX = 100
"""Steps in which a rate can change; locust spreads so many users over its workers at once."""
LOCUST_HTML = "-locust.html"


def run(arguments: argparse.Namespace) -> int:
    """Runs a scenario; the exit code."""
    if arguments.scenario not in SCENARIOS and arguments.scenario not in MIXES:
        known = ", ".join([*SCENARIOS, *MIXES])
        raise UsageError(f"there is no scenario {arguments.scenario!r}: there are {known}")
    for path in (arguments.html, arguments.result, Path(arguments.csv) if arguments.csv else None):
        if path is not None and not path.resolve().parent.is_dir():
            raise UsageError(f"there is no folder {path.resolve().parent}: make it, or name a file in another one")
    with tempfile.TemporaryDirectory(prefix="tidemark-load-") as folder:
        stored = Path(folder) / "result.json"
        code = _start_locust([*_words(arguments), f"--result={stored}"])
        result = _loaded(stored) if stored.exists() else None
    if result is None and code == EXIT_INTERRUPTED:
        return code
    if result is None:
        raise CommandError(f"locust ended with exit code {code} and left no result")
    if arguments.result is not None:
        arguments.result.write_text(json.dumps(result), encoding="utf-8")
    if arguments.html is not None:
        arguments.html.write_text(page_of(result), encoding="utf-8")
    tell(result, sys.stdout, as_json=arguments.json)
    complaints = complaints_of(result)
    for complaint in complaints:
        print(f"tidemark: {complaint}", file=sys.stderr)
    if code == EXIT_INTERRUPTED:
        return code
    return EXIT_FAILURE if complaints else EXIT_SUCCESS


def work(arguments: argparse.Namespace) -> int:
    """Does a part of a run that is led elsewhere."""
    master = [f"--master-host={arguments.master_host}", f"--master-port={arguments.master_port}"]
    return _start_locust(["--worker", *master])


def show(arguments: argparse.Namespace) -> int:
    """A stored result again."""
    try:
        result = _loaded(arguments.result)
    except OSError as error:
        raise CommandError(f"{arguments.result} cannot be read: {error.strerror}") from None
    try:
        page = page_of(result)
        tell(result, sys.stdout, as_json=arguments.json)
    except (LookupError, TypeError, ValueError) as error:
        raise CommandError(f"{arguments.result} is damaged: {error!r}") from None
    if arguments.html is not None:
        arguments.html.write_text(page, encoding="utf-8")
    return EXIT_SUCCESS


def _words(arguments: argparse.Namespace) -> Iterator[str]:
    """The run as words for locust."""
    from loadtest.users.names import class_name_of

    rate = arguments.rate or rate_of(arguments.scenario)
    users = min(USERS_MAX, math.ceil(rate))
    yield class_name_of(arguments.scenario)
    yield "--headless"
    yield f"--users={users}"
    yield f"--arrivals-per-user={rate / users!r}"
    yield f"--run-time={arguments.time:.0f}s"
    yield "--exit-code-on-error=0"
    if not arguments.quiet:
        yield "--progress"
    if arguments.html is not None:
        yield f"--html={arguments.html.with_name(arguments.html.stem + LOCUST_HTML)}"
    if arguments.csv is not None:
        yield f"--csv={arguments.csv}"
    if arguments.processes is not None:
        yield f"--processes={arguments.processes}"
    if arguments.workers is not None:
        yield "--master"
        yield f"--expect-workers={arguments.workers}"
        yield f"--master-bind-port={arguments.master_port}"
    yield from words_of(arguments)


def _start_locust(words: Sequence[str]) -> int:
    """Its exit code, when it has ended; EXIT_INTERRUPTED if it was made to, which it does in good order."""
    if importlib.util.find_spec("locust") is None:
        raise CommandError("locust is not installed: pip install 'tidemark[load]'")
    # Without a log of its own it prints warnings and errors, and no tables.
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--only-summary", "--skip-log-setup", *words]
    # A child inherits what is ignored: an interruption at the keyboard is for this process, which passes it on.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        locust = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, interrupted)
    terminated = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return locust.wait()
    except KeyboardInterrupt:
        locust.terminate()
        locust.wait()
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, terminated)


def _loaded(path: Path) -> dict[str, Any]:
    try:
        result: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        result = None
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise CommandError(f"{path} is no result of `tidemark load run --result` ({SCHEMA})")
    return result
