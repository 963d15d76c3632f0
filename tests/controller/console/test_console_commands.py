"""`tidemark topics` against a broker: what it does, what it prints for people and for programs, how it fails."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.console.command import register
from metastore.commandline import EXIT_BROKEN_PIPE, EXIT_FAILURE, EXIT_SUCCESS, EXIT_USAGE, main
from support.admin_stage import Stage

Run = Callable[..., tuple[int, str, str]]
SEEN_WITHIN_S = 30.0


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.call(stage.clients[0].topics.set_retention("public/default", -1))
        yield stage


@pytest.fixture
def run(stage: Stage, capsys: pytest.CaptureFixture[str]) -> Run:
    """One call of the program."""

    def call(*words: str) -> tuple[int, str, str]:
        broker = ["topics", "--broker", f"tidemark://{stage.brokers[0].address}"]
        try:
            code = main([*broker, *words], [register])
        except SystemExit as ended:
            code = int(str(ended.code))
        out, err = capsys.readouterr()
        return code, out, err

    return call


def done(answer: tuple[int, str, str]) -> str:
    code, out, err = answer
    assert (code, err) == (EXIT_SUCCESS, ""), answer
    return out


def rows(answer: tuple[int, str, str]) -> list[dict[str, Any]]:
    """What programs get."""
    return [json.loads(line) for line in done(answer).splitlines()]


# -- topics


def test_topics_are_created_listed_and_deleted(run: Run) -> None:
    out = done(run("create", "listed", "--segments", "2", "-p", "list=yes", "--subscription", "billing=queue"))
    assert out == "topic://public/default/listed is there, with 2 segments\n"
    assert rows(run("create", "public/default/listed-2", "-p", "list=yes", "-p", "a=b=c", "--json")) == [
        {"type": "created", "topic": "topic://public/default/listed-2", "segments": 1}
    ]
    assert done(run("list", "-p", "list=yes")).split() == [
        "TOPIC",
        "topic://public/default/listed",
        "topic://public/default/listed-2",
    ]
    assert [row["topic"] for row in rows(run("list", "-p", "a=b=c", "--json"))] == ["topic://public/default/listed-2"]
    assert done(run("list", "public/default", "--limit", "1", "-p", "list=yes")).endswith("... and 1 more (--limit)\n")
    assert done(run("list", "public/nobody")) == "no such topics\n"
    assert "is deleted" in done(run("delete", "listed", "--yes"))
    assert rows(run("list", "-p", "list=yes", "--json")) == [
        {"type": "topic", "topic": "topic://public/default/listed-2"}
    ]


def test_properties_are_shown_and_changed(run: Run) -> None:
    done(run("create", "propertied", "-p", "a=1", "-p", "b=2"))
    assert done(run("properties", "propertied")).split() == ["KEY", "VALUE", "a", "1", "b", "2"]
    changed = rows(run("properties", "propertied", "-p", "c=3", "--remove", "a", "--json"))
    assert {row["key"]: row["value"] for row in changed} == {"b": "2", "c": "3"}
    assert "has no properties" in done(run("properties", "propertied", "--remove", "b", "--remove", "c"))


def test_v14_properties_stand_before_or_behind_the_name_and_may_have_commas(run: Run) -> None:
    """Pulsar takes a comma for the end of a property; here a value may have one, and `-p` is said once for each."""
    one, two = ["-p", "a=1"], ["-p", "b=2,3"]
    for number, words in enumerate(([*one, *two, "v14-0"], ["v14-1", *one, *two], [*one, "v14-2", *two])):
        (made,) = rows(run("create", *words, "--json"))
        assert made["segments"] == 1
        shown = rows(run("properties", f"v14-{number}", "--json"))
        assert {row["key"]: row["value"] for row in shown} == {"a": "1", "b": "2,3"}
    names = [f"topic://public/default/v14-{number}" for number in range(3)]
    for words in ([*one, *two, "public/default"], ["public/default", *one, *two]):
        assert [row["topic"] for row in rows(run("list", *words, "--json"))] == names


# -- segments


def test_a_topic_is_described_with_its_picture(run: Run) -> None:
    done(run("create", "shown", "--segments", "2", "-p", "team=billing"))
    assert [row["segment"] for row in rows(run("split", "shown", "0", "--json"))] == [2, 3]
    assert [row["segment"] for row in rows(run("merge", "shown", "3", "1", "--json"))] == [4]
    out = done(run("describe", "shown"))
    assert "team=billing" in out
    assert "broker-0" in out
    assert "epoch 2  |               |====================== 4 ======================|" in out
    found = rows(run("describe", "shown", "--json"))
    assert (found[0]["type"], found[0]["active"], found[0]["sealed"]) == ("topic", 2, 3)
    assert [(row["segment"], row["state"], row["parents"]) for row in found[1:]] == [
        (0, "SEALED", []),
        (1, "SEALED", []),
        (2, "ACTIVE", ["0"]),
        (3, "SEALED", ["0"]),
        (4, "ACTIVE", ["3", "1"]),
    ]


def test_a_topic_is_drawn(run: Run, tmp_path: Path) -> None:
    done(run("create", "drawn", "--segments", "2"))
    assert len(done(run("dag", "drawn", "--width", "40")).splitlines()[1]) == len("epoch 0  ") + 41
    assert [row["segment"] for row in rows(run("dag", "drawn", "--json"))] == [0, 1]
    image = tmp_path / "drawn.svg"
    assert done(run("dag", "drawn", "--svg", str(image))) == f"{image} shows topic://public/default/drawn\n"
    assert image.read_text() == done(run("dag", "drawn", "--svg", "-"))
    code, _, err = run("dag", "drawn", "--svg", str(tmp_path / "absent" / "drawn.svg"))
    assert (code, err.startswith("tidemark: ")) == (EXIT_FAILURE, True)


# -- policies


@pytest.mark.parametrize("subject", [("--topic", "ruled"), ("--namespace", "public/ruled")])
def test_a_policy_is_said_shown_and_taken_back(subject: tuple[str, str], run: Run) -> None:
    if subject[0] == "--topic":
        done(run("create", "ruled"))
    done(run("policy", "set", *subject, "maxSegments=8", "enabled=false"))
    said = {row["setting"]: row for row in rows(run("policy", "set", *subject, "maxSegments=9", "--json"))}
    assert (said["maxSegments"]["holds"], said["maxSegments"]["said_here"]) == (9, 9)
    assert (said["enabled"]["holds"], said["enabled"]["said_here"]) == (False, False)
    assert (said["minSegments"]["holds"], said["minSegments"]["said_here"]) == (1, None)
    done(run("policy", "set", *subject, "enabled=null"))
    assert done(run("policy", "get", *subject)).split()[:6] == ["SETTING", "HOLDS", "SAID_HERE", "enabled", "yes", "-"]
    cleared = rows(run("policy", "clear", *subject, "--json"))
    assert [row["said_here"] for row in cleared if row["said_here"] is not None] == []


def test_a_retention_is_said_and_taken_back(run: Run) -> None:
    assert rows(run("retention", "set", "public/kept", "12h", "--json"))[0]["retention_minutes"] == 720
    assert "for ever" in done(run("retention", "set", "public/kept", "forever"))
    assert rows(run("retention", "get", "public/kept", "--json"))[0]["said_here"] == -1
    assert rows(run("retention", "clear", "public/kept", "--json"))[0]["said_here"] is None


# -- subscriptions


def test_subscriptions_are_made_moved_and_deleted(run: Run) -> None:
    done(run("create", "read"))
    for start in ("earliest", "latest"):
        done(run("subscriptions", "create", "read", "a/b", "--kind", "queue", "--start", start))
    done(run("subscriptions", "seek", "read", "a/b", "2h"))
    assert rows(run("subscriptions", "seek", "read", "a/b", "2026-05-01T12:00:00Z", "--json"))[0]["time_ms"] == (
        1_777_636_800_000
    )
    done(run("subscriptions", "skip", "read", "a/b", "--yes"))
    assert "'a/b' of topic://public/default/read is deleted" in done(
        run("subscriptions", "delete", "read", "a/b", "--yes")
    )
    assert rows(run("stats", "read", "--json"))[0]["subscriptions"] == {}


def test_a_topic_in_numbers(run: Run, stage: Stage) -> None:
    done(run("create", "counted", "--segments", "2", "--subscription", "billing=STREAM"))
    out = done(run("stats", "counted"))
    assert all(word in out for word in ("SEGMENTS", "SUBSCRIPTIONS", "billing", "STREAM", "0000-7fff"))
    assert rows(run("stats", "counted", "--json"))[0]["activeSegments"] == 2


def test_why_a_topic_does_not_split(run: Run) -> None:
    done(run("create", "explained", "--segments", "2"))
    out = done(run("explain", "explained"))
    assert "CONSIDERED" in out
    assert "NOW" in out
    (now,) = rows(run("explain", "explained", "--dry-run", "--json"))
    assert (now["type"], now["action"]) == ("now", "none")
    assert now["notes"]


# -- following


class Watched(io.StringIO):
    """An output whose reader goes away when it has seen enough."""

    def __init__(self, enough: Callable[[str], bool]) -> None:
        super().__init__()
        self.has_begun = threading.Event()
        self._enough = enough

    def flush(self) -> None:
        if self.getvalue():
            self.has_begun.set()
        if self._enough(self.getvalue()):
            raise BrokenPipeError


def watched(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, words: list[str], enough: Callable[[str], bool], act: Any
) -> str:
    """What `watch` prints until there is enough of it; `act` runs when it has begun."""
    out = Watched(enough)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr("metastore.commandline._discard_output", lambda: None)
    acting = threading.Thread(target=lambda: (out.has_begun.wait(SEEN_WITHIN_S), stage.call(act)))
    acting.start()
    broker = ["topics", "--broker", f"tidemark://{stage.brokers[0].address}"]
    assert main([*broker, "watch", *words], [register]) == EXIT_BROKEN_PIPE
    acting.join()
    return out.getvalue()


def test_a_topic_is_followed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = stage.clients[0].topics
    stage.call(topics.create("followed"))
    out = watched(
        stage, monkeypatch, ["--topic", "followed"], lambda out: "epoch 1" in out, topics.split("followed", 0)
    )
    first, *_, last = out.splitlines()
    assert "epoch 0: 0 (0000-ffff)" in first
    assert "epoch 1: 1 (0000-7fff), 2 (8000-ffff), 1 sealed" in last


def test_the_end_of_a_topic_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = stage.clients[0].topics
    stage.call(topics.create("ended"))
    words = ["--topic", "ended", "--json"]
    out = watched(stage, monkeypatch, words, lambda out: '"is_there": false' in out, topics.delete("ended"))
    told = [json.loads(line) for line in out.splitlines()]
    assert told[0]["record"]["segments"]["0"]["state"] == "ACTIVE"
    assert not told[-1]["is_there"]


def test_a_namespace_is_followed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = stage.clients[0].topics
    stage.call(topics.create("shop/eu/first", properties={"a": "b"}))
    words = ["--namespace", "shop/eu", "-p", "a=b"]
    second = topics.create("shop/eu/second", properties={"a": "b"})
    out = watched(stage, monkeypatch, words, lambda out: "second" in out, second)
    assert [line.split()[1:] for line in out.splitlines()] == [
        ["+", "topic://shop/eu/first"],
        ["+", "topic://shop/eu/second"],
    ]


# -- failing


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["describe", "absent"], EXIT_FAILURE, "there is no topic topic://public/default/absent"),
        (["split", "absent", "0"], EXIT_FAILURE, "there is no topic"),
        (["describe", "a/b"], EXIT_USAGE, "short topic name"),
        (["list", "public"], EXIT_USAGE, "TENANT/NAMESPACE"),
        (["create", "x", "-p", "nothing"], EXIT_USAGE, "KEY=VALUE"),
        (["create", "x", "--segments", "0"], EXIT_USAGE, "from 1 to"),
        (["create", "x", "--segments", "1001"], EXIT_FAILURE, "INITIAL_SEGMENTS_MAX"),
        (["create", "x", "--subscription", "s=FAILOVER"], EXIT_USAGE, "NAME=KIND"),
        (["split", "x", "first"], EXIT_USAGE, "no segment's number"),
        (["policy", "set", "--topic", "x", "maxSegments=many"], EXIT_USAGE, "a number is expected"),
        (["policy", "set", "--topic", "x", "maxSegmants=3"], EXIT_USAGE, "maxSegmants"),
        (["policy", "get"], EXIT_USAGE, "required"),
        (["policy", "set", "--namespace", "public/x", "minSegments=99"], EXIT_USAGE, "maxSegments"),
        (["retention", "set", "public/x", "30s"], EXIT_USAGE, "whole minutes"),
        (["subscriptions", "seek", "x", "s", "then"], EXIT_USAGE, "no time"),
        (["subscriptions", "seek", "absent", "s", "5m"], EXIT_FAILURE, "there is no topic"),
        (["dag", "x", "--width", "5"], EXIT_USAGE, "columns"),
        (["delete", "absent"], EXIT_USAGE, "nobody is there to ask"),
        (["subscriptions", "delete", "absent", "s"], EXIT_USAGE, "delete 's' of topic://public/default/absent"),
        (["--broker", "http://x", "list"], EXIT_USAGE, "not the URL of brokers"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    words: list[str], code: int, complaint: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    found, out, err = run(*words)
    assert (found, out) == (code, "")
    assert complaint in err
    assert len(err.splitlines()) == 1


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "code"), [("y\n", EXIT_SUCCESS), ("n\n", EXIT_FAILURE), ("", EXIT_FAILURE)])
def test_it_asks_before_something_is_lost(
    typed: str, code: int, run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, name = stage.clients[0].topics, f"asked-{len(typed)}{typed.strip()}"
    stage.call(topics.create(name))
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    found, _, err = run("delete", name)
    assert found == code
    assert err.startswith(f"Delete of topic://public/default/{name}? [y/N] ")


def test_a_broker_that_is_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.console.running.REACHED_WITHIN_S", 0.2)
    code = main(["topics", "--broker", "tidemark://127.0.0.1:1", "list"], [register])
    assert (code, "no answer within" in capsys.readouterr().err) == (EXIT_FAILURE, True)
