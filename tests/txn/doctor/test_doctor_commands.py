"""`tidemark txn`: what it prints for people and for programs, and how it fails, on a directory and on a server."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor_program import Doctor, Transactions, program, stage_at
from doctor_stage import BILLS, BROKER, ORDERS, Stage
from doctor_vectors import load

from metastore.clock import ManualClock
from metastore.commandline import EXIT_FAILURE, EXIT_USAGE, main
from metastore.coordination import Pace
from metastore.interface import open_store
from support.ports import LOOPBACK, free_port
from support.server import ServerProcess
from txn.doctor import running
from txn.doctor.command import register
from txn.doctor.progress import COUNTED_AT_ONCE, FIRST_AFTER_S, Progress
from txn.model import paths
from txn.model.ids import TxnId


@pytest.fixture(scope="module", params=["lmdb", "server"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "lmdb":
        yield f"lmdb://{tmp_path_factory.mktemp('store')}/data?sync=false&shards=2"
    else:
        with ServerProcess(shards=3) as server:
            yield f"oxia://{server.address}"


@pytest.fixture(scope="module")
def staged(url: str) -> Transactions:
    return stage_at(url)


@pytest.fixture
def doctor(url: str, staged: Transactions, capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(url, capsys)


@pytest.fixture
def own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """A store of one test alone."""
    return Doctor(f"lmdb://{tmp_path}/data?sync=false", capsys)


def test_list(doctor: Doctor, staged: Transactions) -> None:
    heading, first, second = doctor.run("list").splitlines()
    assert heading.split()[:5] == ["TRANSACTION", "STATE", "AGE", "LEFT", "OWNER"]
    assert first.split()[:2] == [staged.holder, "OPEN"]
    assert f"{BILLS}, {ORDERS}" in first
    assert second.split()[:2] == [staged.behind, "OPEN"]
    rows = doctor.json("list", "--state", "all")
    assert [row["transaction"] for row in rows] == list(staged)
    assert {row["type"] for row in rows} == {"transaction"}
    assert rows[0]["subscriptions"] == [f"{ORDERS} (billing)"]
    assert rows[0]["deadline_ms"] - rows[0]["created_ms"] == 3_600_000
    assert [row["transaction"] for row in doctor.json("list", "--state", "all", "--owner", "bob")] == [*staged[2:]]
    assert doctor.json("list", "--older-than", "1h") == []
    assert doctor.run("list", "--older-than", "1h") == "no such transactions\n"
    assert "1 younger ones (--limit)" in doctor.run("list", "--limit", "1")


def test_show(doctor: Doctor, staged: Transactions) -> None:
    text = doctor.run("show", staged.committed)
    for expected in ("PARTICIPANTS", "TIMELINE", "COMMITTED by its client", f"by {BROKER}, term 3", "to be applied"):
        assert expected in text
    assert text.splitlines()[-1] == "collected: when the participants that are left (1) have carried the outcome out"
    rows = doctor.json("show", staged.committed)
    header, one, other, *events = rows
    assert (header["type"], header["state"], header["decided_by"]) == ("header", "COMMITTED", "client")
    assert (one["segment"], one["subscription"], one["outcome"]) == (BILLS, "billing", "to be applied")
    assert (other["segment"], other["outcome"], other["applied_by"]) == (ORDERS, "applied", BROKER)
    assert sorted(event["event"] for event in events) == sorted(
        ["begun", "first operation", "first operation", "decided", "applied"]
    )
    assert [event["at_ms"] for event in events] == sorted(event["at_ms"] for event in events)
    assert "1 more (--limit)" in doctor.run("show", staged.committed, "--limit", "1")


def test_why(doctor: Doctor, staged: Transactions) -> None:
    [horizon, behind] = doctor.json("why", ORDERS)
    assert (horizon["type"], horizon["horizon"]) == ("horizon", "held")
    assert (horizon["transaction"], horizon["owner"], horizon["first_entry"]) == (staged.holder, "ann", "3:0")
    assert (horizon["transactions_behind"], horizon["transactional_entries_behind"]) == (1, 2)
    assert (behind["type"], behind["transaction"], behind["first_entry"]) == ("behind", staged.behind, "3:3")
    text = doctor.run("why", ORDERS)
    assert "a commit or an abort by its owner ann" in text
    assert "OTHER TRANSACTIONS" in text
    assert "Entries without a transaction wait as well" in text
    assert "check its name" in doctor.run("why", "segment://nowhere", code=EXIT_FAILURE)


def test_stats(doctor: Doctor, staged: Transactions) -> None:
    figures, *tables = doctor.json("stats", "--stuck-after", "0ms")
    assert (figures["open"], figures["committed"], figures["aborted"]) == (2, 1, 1)
    assert (figures["oldest_open"], figures["oldest_open_owner"]) == (staged.holder, "ann")
    assert (figures["operations"], figures["decided_not_applied"], figures["stuck_participants"]) == (5, 1, 1)
    by_type = {table["type"]: table for table in tables}
    assert by_type["aborted"]["segment"] == BILLS
    assert (by_type["stuck"]["segment"], by_type["stuck"]["subscription"]) == (BILLS, "billing")
    assert {table["owner"] for table in tables if table["type"] == "owner"} == {"ann", None}
    assert "OPEN TRANSACTIONS BY OWNER" in doctor.run("stats")
    assert [row["type"] for row in doctor.json("stats", "--limit", "1")] == ["stats", "owner", "aborted"]


def test_a_dry_run_changes_nothing(doctor: Doctor, staged: Transactions) -> None:
    text = doctor.run("abort", staged.holder, "--dry-run")
    assert "undoes 3 operations" in text
    rows = doctor.json("abort", staged.holder, "--dry-run")
    assert [(row["type"], row["entries_never_seen"], row["acknowledgements_undone"]) for row in rows] == [
        ("effect", 1, 0),
        ("effect", 3, 0),
        ("effect", 0, 1),
    ]
    assert doctor.json("show", staged.holder)[0]["state"] == "OPEN"


def test_abort(own: Doctor) -> None:
    staged = stage_at(own.url)
    assert f"{staged.holder} is aborted" in own.run("abort", staged.holder, "--yes")
    assert own.json("show", staged.holder)[0]["decided_by"] == "operator"
    assert "was aborted by an operator" in own.run("abort", staged.holder, "--yes", code=EXIT_FAILURE)
    assert "was committed by its client" in own.run("abort", staged.committed, "--dry-run", code=EXIT_FAILURE)
    [*_, last] = own.json("abort", staged.behind, "--yes")
    assert last == {"type": "aborted", "transaction": staged.behind}
    [horizon] = own.json("why", ORDERS)[:1]
    assert horizon["horizon"] == "unapplied"


class Terminal(io.StringIO):
    """Standard input with somebody there."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "is_aborted"), [("y\n", True), ("yes\n", True), ("n\n", False), ("", False)])
def test_abort_asks(
    own: Doctor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, is_aborted: bool
) -> None:
    staged = stage_at(own.url)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    code = main(["txn", "--store", own.url, "abort", staged.holder], [register])
    assert f"Abort {staged.holder}? [y/N] " in capsys.readouterr().err
    assert code == (0 if is_aborted else EXIT_FAILURE)
    assert own.json("show", staged.holder)[0]["state"] == ("ABORTED" if is_aborted else "OPEN")


def test_abort_acts_on_no_answer_of_nobody(own: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert "give --yes" in own.run("abort", "md_0_1", code=EXIT_USAGE)


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["show", "md_0_77777"], EXIT_FAILURE, "there is no transaction md_0_77777"),
        (["show", "1_0"], EXIT_USAGE, "legacy"),
        (["show", "md_0_0", "--records", "pulsar"], EXIT_USAGE, "no transaction id of Pulsar"),
        (["abort", "1_0", "--yes", "--records", "pulsar"], EXIT_FAILURE, "only read"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(doctor: Doctor, arguments: list[str], code: int, reason: str) -> None:
    assert reason in doctor.run(*arguments, code=code)


def test_a_store_that_is_not_there_is_told_at_once_and_a_silent_one_in_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "OPENING_S_MAX", 3_600.0)
    refused = f"{LOOPBACK}:{free_port()}"
    assert f"nobody listens at {refused}" in Doctor(f"oxia://{refused}", capsys).run("list", code=EXIT_FAILURE)
    monkeypatch.setattr(running, "OPENING_S_MAX", 0.2)
    with socket.socket() as silent:
        silent.bind((LOOPBACK, 0))
        silent.listen()
        url = f"oxia://{LOOPBACK}:{silent.getsockname()[1]}"
        assert "no answer within 0.2 s" in Doctor(url, capsys).run("list", code=EXIT_FAILURE)


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--older-than", "soon"],
        ["list", "--limit", "0"],
        ["list", "--owner", ""],
        ["list", "--state", "lost"],
        ["why", ""],
        ["show"],
        [],
    ],
)
def test_options_that_make_no_sense(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["txn", *arguments], [register])
    assert ended.value.code == EXIT_USAGE
    assert "--help" in capsys.readouterr().err


def test_pulsars_records_are_recognised(own: Doctor) -> None:
    async def fill() -> None:
        async with await open_store(own.url) as store:
            await load(store, "11-c-open")

    asyncio.run(fill())
    rows = own.json("list")
    assert [row["transaction"] for row in rows] == ["1_1", "0_1"]
    figures = own.json("stats")[0]
    assert (figures["open"], figures["committed"], figures["aborted"]) == (2, 1, 1)
    [horizon, *_] = own.json("why", rows[0]["segments"][0])
    assert (horizon["horizon"], horizon["transaction"]) == ("held", "1_1")
    assert [row["transaction"] for row in own.json("list", "--dialect", "pulsar")] == ["1_1", "0_1"]
    assert own.json("show", "1_1", "--dialect", "pulsar")[0]["type"] == "header"
    assert own.json("list", "--records", "tidemark") == own.json("list", "--dialect", "tidemark") == []


def test_odd_records_are_named_behind_the_answer(own: Doctor) -> None:
    async def fill() -> None:
        async with await open_store(own.url) as store:
            await Stage(store, Pace()).begin()
            index = (paths.BY_DEADLINE, paths.deadline_key(1))
            await store.put(paths.header_key(TxnId(1, 1)), b"\x1b[31m", partition_key="md_1_1", indexes=[index])

    asyncio.run(fill())
    rows = own.json("list")
    assert [row["type"] for row in rows] == ["transaction", "odd"]
    assert rows[1]["key"] == "/txn/md_1_1"
    text = own.run("list")
    assert "RECORDS THAT MAKE NO SENSE (1)" in text
    assert "\x1b" not in text


def test_the_installed_program(url: str, staged: Transactions) -> None:
    ended = program("--store", url, "list", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [json.loads(line)["transaction"] for line in ended.stdout.splitlines()] == [*staged[:2]]
    failed = program("--store", url, "show", "md_0_77777")
    assert (failed.returncode, failed.stdout) == (EXIT_FAILURE, "")
    assert failed.stderr.startswith("tidemark: there is no transaction")
    assert program("--store", "nonsense", "list").returncode == EXIT_USAGE
    unasked = program("--store", url, "abort", staged.holder, stdin="y\n")
    assert unasked.returncode == EXIT_USAGE


def test_progress_is_shown_on_a_terminal_and_wiped_out() -> None:
    clock, terminal = ManualClock(), Terminal()
    progress = Progress(terminal, clock)
    progress(COUNTED_AT_ONCE)
    assert terminal.getvalue() == ""
    clock.advance_ms(int(FIRST_AFTER_S * 1000))
    progress(COUNTED_AT_ONCE + 1)
    assert terminal.getvalue() == ""
    progress(2 * COUNTED_AT_ONCE)
    progress(3 * COUNTED_AT_ONCE)
    assert terminal.getvalue() == f"\r{2 * COUNTED_AT_ONCE} records read ..."
    progress.wipe()
    assert terminal.getvalue().rpartition("\r")[2] == ""
    length = len(terminal.getvalue())
    progress.wipe()
    assert len(terminal.getvalue()) == length


def test_no_progress_is_shown_where_there_is_no_terminal() -> None:
    clock, file = ManualClock(), io.StringIO()
    progress = Progress(file, clock)
    clock.advance_ms(10_000)
    progress(COUNTED_AT_ONCE)
    progress.wipe()
    assert file.getvalue() == ""
