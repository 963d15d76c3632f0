"""Load on a real service: every scenario, `tidemark load` with locust, its workers, its exit codes."""

from __future__ import annotations

import asyncio
import csv
import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from loadtest.arrivals import SHAPES, Settings, run_precisely
from loadtest.engine import Generator
from loadtest.outcomes import Outcome
from loadtest.scenarios import MIXES, SCENARIOS, TargetMissing, new_mark
from metastore.commandline import main
from metastore.stagecraft import COMMAND_LINE, LOOPBACK, Program
from support.browser import Browser
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 60.0
SEEN = {
    "metadata-mixed": ("get", "put", "delete"),
    "metadata-zipf": ("get", "put"),
    "metadata-hot": ("get", "put"),
    "sequences": ("append", "newest"),
    "index-scans": ("index scan", "put, another place in the index"),
    "watches": ("put", "news of a watch"),
    "session-storm": ("storm", "open session", "put ephemeral record", "close session"),
    "transactions": (
        *("commit", "abort", "begin", "decide", "send and acknowledge"),
        *("leave to time out", "aborted after its deadline", "committed message delivered"),
    ),
    "transactions-contended": ("contest", "win", "lose"),
    "topics": ("send", "delivered to a stream", "delivered to a queue", "acknowledged"),
    "topics-reshaping": ("send", "delivered to a stream", "delivered to a queue", "split", "merge"),
}
"""What every scenario must show."""


@pytest.fixture(scope="module")
def targets() -> Iterator[tuple[str, str]]:
    """A service of everything: its store, its brokers."""
    store, brokers, admin = (f"{LOOPBACK}:{free_port()}" for _ in range(3))
    with tempfile.TemporaryDirectory(prefix="tidemark-load-") as folder:
        places = ["--data-dir", folder, "--listen", brokers, "--metadata", store, "--admin", admin]
        service = Program("service", ["standalone", *places, "--metrics-port", "0", "--metadata-metrics-port", "0"])
        service.start()
        try:
            yield f"oxia://{store}", f"tidemark://{brokers}"
        finally:
            service.stop()


class Sightings:
    """Outcomes as they come, and word when everything was seen that has to be."""

    def __init__(self, wanted: Sequence[tuple[str, str]]) -> None:
        self.errors: Counter[tuple[str, str, str]] = Counter()
        self.marks: list[tuple[str, str]] = []
        self.complete = asyncio.Event()
        self.missing = set(wanted)

    def record(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.errors[outcome.scenario, outcome.operation, outcome.error] += 1
        else:
            self.missing.discard((outcome.scenario, outcome.operation))
        if not self.missing:
            self.complete.set()

    def note(self, scenario: str, text: str) -> None:
        self.marks.append((scenario, text))


async def run_until_seen(names: Sequence[str], settings: Settings) -> Sightings:
    seen = Sightings([(name, operation) for name in names for operation in SEEN[name]])
    async with Generator(names, settings, seen.record, seen.note) as generator:
        generator.set_rates({name: min(40.0, SCENARIOS[name].rate) for name in names})
        async with asyncio.timeout(WITHIN_S):
            await seen.complete.wait()
        await generator.finish()
        assert generator.outstanding == 0
    return seen


def test_every_scenario_is_tried() -> None:
    assert set(SEEN) == set(SCENARIOS)


@pytest.mark.parametrize("uses", ["metadata", "brokers"])
def test_every_scenario_shows_what_it_says(uses: str, targets: tuple[str, str]) -> None:
    names = [name for name, scenario in SCENARIOS.items() if scenario.uses == uses]
    settings = Settings(targets=targets, mark=new_mark(), records=300, reads=0.5, commits=0.7)
    seen = run_precisely(run_until_seen(names, settings))
    # A layout that is just being changed may refuse to be changed again, and what a segment had may come once more.
    refused = {("topics-reshaping", each) for each in ("split", "merge", "acknowledged")}
    assert {error for error in seen.errors if error[:2] not in refused} == set()
    assert uses == "metadata" or ("topics-reshaping", "split") in seen.marks


def test_a_scenario_without_its_target_says_which() -> None:
    async def run() -> None:
        settings = Settings(targets=("oxia://127.0.0.1:1",), mark=new_mark())
        async with Generator(["topics"], settings, lambda outcome: None, lambda name, text: None):
            raise AssertionError("there are no brokers to load")

    with pytest.raises(TargetMissing, match=r"no --target names brokers.*oxia://127\.0\.0\.1:1"):
        run_precisely(run())


def load(*words: str, within_s: float = WITHIN_S) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND_LINE, "load", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=within_s, cwd=ROOT)


def test_a_run_writes_its_report_and_its_files(targets: tuple[str, str], tmp_path: Path) -> None:
    page, stored = tmp_path / "page.html", tmp_path / "result.json"
    ended = load(
        *("run", "metadata-zipf", "--rate", "60", "--time", "3s", "--target", targets[0], "--records", "200", "--json"),
        *("--html", str(page), "--csv", str(tmp_path / "locust"), "--result", str(stored)),
        *("--fail-error-ratio", "0", "--quiet"),
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    summary = json.loads(ended.stdout)
    assert (summary["scenario"], summary["errors"], summary["violations"]) == ("metadata-zipf", 0, [])
    assert 90 < summary["arrivals"] < 300  # of 180; Poisson arrivals vary by 40 at 3 standard deviations
    assert "<svg" in page.read_text(encoding="utf-8")
    assert "Locust" in (tmp_path / "page-locust.html").read_text(encoding="utf-8")
    assert requests_of(tmp_path / "locust")["Aggregated"] == summary["arrivals"]
    shown = load("show", str(stored), "--json")
    assert (shown.returncode, json.loads(shown.stdout)) == (0, summary)


def requests_of(prefix: Path) -> dict[str, int]:
    """How many requests locust's CSV file tells of, by their names."""
    with Path(f"{prefix}_stats.csv").open(encoding="utf-8", newline="") as file:
        return {row["Name"]: int(row["Request Count"]) for row in csv.DictReader(file)}


LAST_WORD = """
import sys
from locust.env import Environment
from locust.stats import PERCENTILES_TO_REPORT, StatsCSVFileWriter
from loadtest.users.tables import write_tables

environment = Environment()
ours = StatsCSVFileWriter(environment, PERCENTILES_TO_REPORT, sys.argv[1])
ours.requests_csv(ours.requests_csv_writer)  # which it keeps to itself until it is closed
environment.stats.log_request("watches", "put", 1.0, 1)
environment.stats.log_request("watches", "put", 2.0, 1)
environment.stats.log_error("watches", "put", "refused")
write_tables(environment, sys.argv[1])
ours.close_files()
"""
"""In a process of its own: locust takes its whole process over."""


def test_the_last_word_is_in_the_tables_whatever_was_written_before(tmp_path: Path) -> None:
    prefix = tmp_path / "locust"
    subprocess.run([sys.executable, "-c", LAST_WORD, str(prefix)], check=True, timeout=WITHIN_S, cwd=ROOT)
    assert requests_of(prefix) == {"put": 2, "Aggregated": 2}
    assert "refused" in Path(f"{prefix}_failures.csv").read_text(encoding="utf-8")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        f"locust_{each}.csv" for each in ("exceptions", "failures", "stats", "stats_history")
    ]


def test_workers_share_a_run_and_a_threshold_makes_it_fail(targets: tuple[str, str], tmp_path: Path) -> None:
    port = str(free_port())
    master = subprocess.Popen(
        [
            *(*COMMAND_LINE, "load", "run", "watches", "--rate", "40", "--time", "3s", "--target", targets[0]),
            *("--workers", "2", "--master-port", port, "--fail-p99-ms", "0.001", "--json", "--quiet"),
            *("--csv", str(tmp_path / "locust")),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    worker = [*COMMAND_LINE, "load", "worker", "--master-port", port]
    workers = [subprocess.Popen(worker, text=True, cwd=ROOT, stderr=subprocess.DEVNULL) for _ in range(2)]
    try:
        out, complaints = master.communicate(timeout=WITHIN_S)
        codes = [each.wait(WITHIN_S) for each in workers]
    finally:
        for process in (master, *workers):
            process.kill()
            process.wait()
    summary = json.loads(out)
    assert (master.returncode, codes) == (1, [0, 0])
    assert "p99 in ms of watches: put" in complaints
    assert "Traceback" not in complaints
    assert (summary["plan"]["processes"], summary["errors"]) == (2, 0)
    counts = {row["operation"]: row["count"] for row in summary["operations"]}
    assert requests_of(tmp_path / "locust") == {**counts, "Aggregated": sum(counts.values())}
    assert counts["put"] > 40
    assert counts["news of a watch"] >= 4 * counts["put"] * 0.9  # the last may come when the run is over


def test_a_run_that_is_interrupted_tells_what_it_has(targets: tuple[str, str]) -> None:
    command = [*COMMAND_LINE, "load", "run", "sequences", "--target", targets[0], "--time", "60s", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as run:
        try:
            assert run.stderr is not None
            assert "arrivals" in run.stderr.readline()  # the first that it says of its progress
            run.send_signal(signal.SIGINT)
            out, complaints = run.communicate(timeout=WITHIN_S)
        finally:
            run.kill()
    assert (run.returncode, "Traceback" in complaints) == (130, False)
    assert json.loads(out)["arrivals"] > 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "nothing"], 2, "there is no scenario 'nothing': there are metadata-mixed, "),
        (["run", "topics", "--html", "/nowhere/page.html"], 2, "there is no folder /nowhere"),
        (["show", "pyproject.toml"], 1, "pyproject.toml is no result of `tidemark load run --result`"),
        (["show", "nowhere.json"], 1, "nowhere.json cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["load", *words]) == code
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"tidemark: {said}")
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("words", [["--rate", "0"], ["--time", "1.5s"], ["--reads", "2"], ["--shape", "square"]])
def test_options_that_make_no_sense_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["load", "run", "topics", *words])
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_nobody_there_is_said_in_a_line() -> None:
    ended = load("run", "metadata-mixed", "--time", "2s", "--target", f"oxia://{LOOPBACK}:{free_port()}", "--quiet")
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert ended.stderr.startswith("tidemark: Unavailable: nobody listens at")


def test_the_target_of_make_starts_a_service_and_leaves_a_report(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.command.making", "--time", "5s", "--records", "200", "--quiet"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, cwd=tmp_path)
    page = tmp_path / "build" / "load" / "report.html"
    assert (ended.returncode, page.resolve().as_uri() in ended.stdout) == (0, True)
    with Browser() as browser:
        shown = browser.open(page.as_uri(), width=1100)
        assert (shown.errors, shown.overflowing()) == ([], [])
        text = shown.evaluate("document.body.innerText")
        for said in ("Load: everything", "passed", "p99 by scenario", "news of a watch", "topics-reshaping"):
            assert said in text
        assert shown.evaluate("document.querySelectorAll('section > svg path.curve').length") > 10
        assert shown.screenshot().startswith(b"\x89PNG")


def test_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "scenarios", "--json"]) == 0
    listed = [json.loads(line)["scenario"] for line in capsys.readouterr().out.splitlines()]
    assert listed == [*SCENARIOS, *MIXES]


def test_the_page_of_load_has_every_scenario_with_its_command_and_every_shape() -> None:
    text = (ROOT / "docs" / "load.md").read_text(encoding="utf-8")
    assert [name for name in (*SCENARIOS, *MIXES) if f"| `{name}` |" not in text] == []
    assert [name for name in (*SCENARIOS, *MIXES) if f"\ntidemark load run {name} " not in text] == []
    assert [name for name in SHAPES if f"| `{name}` |" not in text] == []


def test_locust_has_a_user_for_each_scenario() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "locust", "-f", str(ROOT / "loadtest" / "users" / "locustfile.py"), "--list"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    names = {"".join(word.capitalize() for word in name.split("-")) for name in (*SCENARIOS, *MIXES)}
    assert {line.strip() for line in listed.stdout.splitlines()[1:]} == names
