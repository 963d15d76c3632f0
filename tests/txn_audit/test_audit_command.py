"""`tidemark audit`, as it is called."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from audit_stage import plant
from pyspark.sql import SparkSession

from metastore.clock import SystemClock
from metastore.commandline import main
from txn.audit.faults import plant_fault
from txn.audit.planting import LONG_AGO_MS, Planter, Subject
from txn.audit.rules.model import Rule, Severity
from txn.audit.rules.registry import GROUP, OWN, UnknownRule, combined
from txn.model.header import TxnState
from txn.model.ids import TxnId

GUIDE = Path(__file__).parents[2] / "docs" / "audit.md"


async def plant_some(planter: Planter) -> None:
    await planter.plant_clean(20)
    await plant_fault(planter, "committed-but-skipped")
    await plant_fault(planter, "horizon-held", 3)
    segment = planter.segment(0)
    header = planter.ended(TxnState.COMMITTED, LONG_AGO_MS)
    await planter.put(Subject(header, [planter.write(segment, LONG_AGO_MS + 1)]))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with some faults, to be audited now."""
    url, _ = plant(tmp_path_factory.mktemp("planted") / "store", plant_some, SystemClock().wall_ms())
    return url


def run(*arguments: str) -> int:
    """Calls the program in this process; returns its exit code."""
    return main(["audit", *arguments])


def test_a_store_is_audited_and_told_about(
    spark: SparkSession, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, output, ledger = tmp_path / "report.html", tmp_path / "violations", tmp_path / "ledger"
    only = ["--rule", "committed-but-skipped", "--rule", "horizon-held", "--rule", "outcome-not-applied"]
    files = ["--report", str(report), "--output", str(output), "--ledger", str(ledger)]
    assert run("run", "--store", store, "--limit", "2", *only, *files) == 5
    told = capsys.readouterr().out
    assert "3 rules, 5 violations of 3" in told
    assert "horizon-held: 2 of 3" in told
    assert "critical" in told
    assert spark.read.parquet(str(output)).count() == 5
    assert "<html" in report.read_text(encoding="utf-8")
    assert spark.read.parquet(str(ledger / "headers")).count() > 0


def test_programs_are_told_in_json_and_by_the_exit_code(
    spark: SparkSession, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--rule", "horizon-held", "--rule", "header-changed-again"]
    watched = ["watch", "--every", "1ms", "--times", "2", "--json"]
    assert run(*watched, "--store", store, *only, "--fail-on", "error") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["type"] for line in lines] == (["violation"] * 3 + ["rule", "audit"]) * 2
    assert lines[0]["evidence"]["state"] == "OPEN"
    assert lines[3] == {"type": "rule", "rule": "horizon-held", "severity": "warning", "violations": 3}
    assert run("run", "--store", store, "--rule", "horizon-held") == 3


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--rule", "nothing"], 2, "there is no rule 'nothing'"),
        (["run", "--rule", "half-applied", "--dialect", "pulsar"], 2, "not for records of pulsar"),
        (["run", "--rule", "cursor-went-back"], 2, "need a --ledger"),
        (["run", "--store", "memory://"], 2, "memory of one process"),
        (["run", "--store", "oxia://127.0.0.1:1"], 1, "nobody listens at 127.0.0.1:1"),
        (["run", "--store", "lmdb:///nowhere"], 1, "holds no store"),
        (["explain", "nothing"], 2, "there is no rule 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    spark: SparkSession, arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == code
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


def test_rules_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("rules") == 0
    told = capsys.readouterr().out
    assert all(rule.name in told for rule in OWN)
    assert run("rules", "--dialect", "pulsar", "--json") == 0
    names = [json.loads(line)["rule"] for line in capsys.readouterr().out.splitlines()]
    assert "announcement-left-behind" in names
    assert "half-applied" not in names
    assert run("explain", "half-applied") == 0
    told = capsys.readouterr().out
    assert "half-applied (error; records of tidemark; over a point in time)" in told
    assert "Readers of one segment see the transaction" in told


def test_rules_of_others_are_added_and_names_are_unique() -> None:
    other = Rule("mine", "t", "w", "r", Severity.WARNING, [])
    assert combined(OWN, [other])[-1] is other
    assert combined(OWN, [[other]])[-1] is other
    with pytest.raises(UnknownRule, match="two rules 'mine'"):
        combined(OWN, [other, other])


def example_rules() -> str:
    """The module that the guide shows to those who have rules of their own."""
    section = GUIDE.read_text(encoding="utf-8").partition("### Your own")[2]
    return section.partition("```py\n")[2].partition("```")[0]


def test_rules_of_an_installed_package_are_found_and_evaluated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    about = tmp_path / "installed" / "more_rules-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: more-rules\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\nmore = more_rules:NO_OWNER\n")
    (about.parent / "more_rules.py").write_text(example_rules())
    monkeypatch.syspath_prepend(about.parent)

    async def plant_nobodys(planter: Planter) -> None:
        await planter.plant_clean(10)
        await planter.put(Subject(replace(planter.open_header(), owner=None)), TxnId(0, 500))

    url, _ = plant(tmp_path / "store", plant_nobodys, SystemClock().wall_ms())
    assert run("rules", "--json") == 0
    assert "owner-unknown" in capsys.readouterr().out
    assert run("run", "--store", url, "--rule", "owner-unknown", "--json") == 3
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["txn_id"] for line in lines if line["type"] == "violation"] == ["md_0_500"]


def test_every_rule_is_documented() -> None:
    page = GUIDE.read_text(encoding="utf-8")
    for rule in OWN:
        assert f"| `{rule.name}` | {rule.severity.value} |" in page, rule.name
    section = page.partition("## What must hold")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z-]+)`", section))
    assert named <= {rule.name for rule in OWN}
    assert {rule.name for rule in OWN} - named == set()
