"""`make load`: everything at once on a `tidemark standalone` in a fresh folder, and a report of it.

python -m loadtest.command.making, with the options of `tidemark load run everything`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from metastore.commandline import main as tidemark
from metastore.stagecraft import LOOPBACK, Program, begin_chapter, free_port, say

FOLDER = Path("build") / "load"
SCENARIO = "everything"
TIME = "2m"


def make(options: Sequence[str]) -> int:
    """Starts the service, runs, ends the service; the exit code of the run."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    page = FOLDER / "report.html"
    with tempfile.TemporaryDirectory(prefix="tidemark-load-data-") as folder:
        brokers, store, admin = (f"{LOOPBACK}:{free_port()}" for _ in range(3))
        begin_chapter("A service, in a fresh folder")
        places = ["--listen", brokers, "--metadata", store, "--admin", admin]
        metrics = ["--metrics-port", "0", "--metadata-metrics-port", "0"]
        service = Program("service", ["standalone", "--data-dir", folder, *places, *metrics])
        service.start()
        try:
            begin_chapter(f"A run of {SCENARIO}")
            targets = ["--target", f"oxia://{store}", "--target", f"tidemark://{brokers}"]
            files = ["--html", str(page), "--csv", str(FOLDER / "locust"), "--result", str(FOLDER / "result.json")]
            code = tidemark(["load", "run", SCENARIO, "--time", TIME, *targets, *files, *options])
        finally:
            service.stop()
    begin_chapter("The report")
    say(f"{page.resolve().as_uri()}, locust's own beside it")
    return code


if __name__ == "__main__":
    sys.exit(make(sys.argv[1:]))
