"""The resource curves: their lines stand on an axis, and one short run ends in charts."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.bench import curve_sizes, proc
from loadtest.bench.commandline import main
from loadtest.bench.model import AtMost, Figure
from loadtest.bench.servers import tidemark
from loadtest.bench.settings import QUICK_PLAN, Settings
from loadtest.bench.suite import all_derived, all_groups
from loadtest.bench.workload import POOL_BYTES, Puts, Sessions, put_pool
from metastore.pb import oxia_pb2 as pb

SETTINGS = Settings(QUICK_PLAN, (tidemark(),), Path("/nowhere"), "lean", curve_records=10_000)


@pytest.fixture(autouse=True)
def same_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OXIA_BIN", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_every_curve_has_an_axis_and_every_line_its_place_on_it() -> None:
    curves = [group for group in all_groups(SETTINGS) if group.name.startswith("curve-")]
    assert {group.name.removeprefix("curve-") for group in curves} == {
        *("outstanding", "value", "batch", "overload"),
        *("records", "sessions", "watches", "shards"),
    }
    for group in curves:
        places = [(line.point.series, line.point.at) for line in group.lines if line.point is not None]
        assert len(places) == len(group.lines)
        assert len(set(places)) == len(places), group.name


def test_records_grow_by_tens_up_to_what_was_asked_for() -> None:
    (records,) = [group for group in curve_sizes.groups(SETTINGS) if group.name == curve_sizes.RECORDS]
    assert sorted({line.point.at for line in records.lines if line.point}) == [1_000, 10_000]


@pytest.mark.parametrize(("of_peak", "word_value"), [(0.8, 1.25), (1.0, 1.0), (0.5, 2.0)])
def test_what_is_left_of_the_peak_is_judged(of_peak: float, word_value: float) -> None:
    (put, _get) = all_derived(SETTINGS)
    found = put.compute(
        lambda name, metric: {"tidemark": Figure((of_peak,), of_peak, 0.0)}
        if (name, metric) == ("curve-overload/put-2", "of_peak")
        else None
    )
    assert found is not None
    assert found["tidemark"] == pytest.approx(word_value)
    (check,) = put.checks
    assert check == AtMost(1.25)


def test_values_have_the_size_that_is_asked_for_and_pools_stay_small() -> None:
    request = pb.WriteRequest.FromString(next(Puts(1, 1, 1_000, value_bytes=8_192).requests(0)))
    assert [len(put.value) for put in request.puts] == [8_192]
    assert len(put_pool(1_000, "random", "none", 512 * 1024)) * 512 * 1024 <= POOL_BYTES


def test_so_many_sessions_are_created_as_are_asked_for() -> None:
    assert len(list(Sessions(30_000, count=7).requests(0))) == 7
    assert len(list(itertools.islice(Sessions(30_000).requests(0), 9))) == 9


def test_disk_use_is_that_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(bytes(100_000))
    assert 100_000 <= proc.disk_bytes_of(tmp_path) <= 200_000


def test_a_run_of_curves_ends_in_json_and_charts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, page = tmp_path / "curves.json", tmp_path / "curves.md"
    page.write_text("<!-- run: curves.json -->\n<!-- end of run -->\n")
    # Whole names: a part of one would choose its longer neighbours as well.
    lines = ["[c]urve-batch/put-10", "[c]urve-sessions/put-100", "[c]urve-shards/put-2-one"]
    only = [word for line in lines for word in ("--only", line)]
    options = ["--curves", "--quick", "--repeats", "1", *only, "--directory", str(tmp_path), "--json", str(target)]
    assert main(options) == 0
    report = json.loads(target.read_text())
    points = {row["line"]: row["point"] for row in report["rows"] if row["group"].startswith("curve-")}
    assert points["put-10"] == {"series": "puts", "at": 10}
    assert report["groups"]["curve-batch"]["axis"] == {"label": "puts of a request", "is_log": True}
    assert "polyline" in (tmp_path / "charts" / "curves-curve-batch.svg").read_text()
    assert "charts/curves-curve-sessions.svg" in page.read_text()


@pytest.mark.parametrize("number", ["0", "1234", "100000000"])
def test_records_of_curves_are_powers_of_ten(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--curves", "--curve-records", number])
    assert "must be one of 1000, 10000" in capsys.readouterr().err


def test_peers_and_curves_are_two_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--peers", "--curves"]) == 2
    assert "--peers and --curves are two runs" in capsys.readouterr().err
