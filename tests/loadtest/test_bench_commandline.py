"""The command line: bad usage, listing, and one small run from options to table and JSON."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.bench.commandline import main


@pytest.fixture(autouse=True)
def same_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(autouse=True)
def without_oxia(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OXIA_BIN", raising=False)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "nothing-like-this"], "no line matches nothing-like-this"),
        (["--directory", "/no/such/place"], "--directory /no/such/place: no such directory"),
        (["--json", "/no/such/place/file.json"], "--json /no/such/place/file.json: no such directory"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {complaint}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--repeats", "0"], ["--repeats", "many"], ["--client", "best"], ["x"]])
def test_wrong_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_an_oxia_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OXIA_BIN", str(tmp_path / "oxia"))
    assert main(["--list"]) == 2
    assert "no such program" in capsys.readouterr().err


def test_all_lines_have_names_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert len(names) == len(set(names))
    assert {"limits/echo-unary", "wire/put-one", "wire/scan-100k", "store/list-1m"} <= set(names)


def test_a_run_ends_with_a_table_and_its_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "bench.json"
    options = ["--quick", "--only", "limits/fdatasync-256", "--only", "echo-stream", "--repeats", "2"]
    assert main([*options, "--directory", str(tmp_path), "--json", str(target)]) == 0
    printed = capsys.readouterr()
    assert "pwrite and fdatasync of 256 B" in printed.out
    assert "Limits of this machine" in printed.err
    report = json.loads(target.read_text())
    assert [(row["line"], row["metric"]) for row in report["rows"]] == [
        ("fdatasync-256", "p50_ms"),
        ("fdatasync-256", "p99_ms"),
        ("echo-stream", "p50_ms"),
        ("echo-stream", "p99_ms"),
    ]
    assert all(len(row["figures"]["limit"]["repeats"]) == 2 for row in report["rows"])
    assert report["failures"] == []
    assert {path.name for path in tmp_path.iterdir()} == {"bench.json"}


def test_a_run_is_compared_with_another_and_written_to_the_page_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, page = tmp_path / "bench.json", tmp_path / "bench.md"
    page.write_text("<!-- run: bench.json -->\n<!-- end of run -->\n")
    options = ["--quick", "--only", "engine-10k/put-10", "--repeats", "1", "--directory", str(tmp_path)]
    assert main([*options, "--json", str(target)]) == 0
    # The pace of the machine is measured with whatever is asked for.
    lines = {row["line"] for row in json.loads(target.read_text())["rows"]}
    assert {"echo-unary", "fdatasync-256", "put-10"} <= lines
    assert "put by 10" in page.read_text()
    assert (tmp_path / "charts" / "bench-engine-10k.svg").exists()
    capsys.readouterr()
    assert main([*options, "--against", str(target)]) == 0
    assert "Against bench.json of " in capsys.readouterr().out


def test_a_stored_run_that_cannot_be_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.json").write_text("{}")
    options = ["--quick", "--only", "fdatasync-256", "--repeats", "1", "--against", str(tmp_path / "none.json")]
    assert main(options) == 2
    assert "the schema is None" in capsys.readouterr().err
