"""The page of topics: its commands and requests run; every path, operation, option and limit is on it."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from controller.admin import AdminLimits
from controller.admin.application import application
from controller.admin.bodies import RecordBody, StatsBody
from controller.autoscale.config import OVERRIDES
from controller.console.command import register
from controller.console.drawing import draw
from controller.layout import Layout
from metastore.commandline import EXIT_SUCCESS, build_parser, main
from support.admin_stage import Stage

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "topics.md").read_text(encoding="utf-8")
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line
]
DOCUMENT: dict[str, Any] = application(None, None, None).openapi()  # type: ignore[arg-type]
BASES = (
    "/admin/v2/scalable/{tenant}/{namespace}",
    "/admin/v2/namespaces/{tenant}/{namespace}",
    "/admin/v2/segments/{tenant}/{namespace}/{topic}/{descriptor}",
)


def is_named(words: str) -> bool:
    """Whether the page has these words, and not only as the beginning of longer ones."""
    return re.search(rf"(?<![\w/-]){re.escape(words)}(?![\w/{{-])", PAGE) is not None


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Nothing is pruned, which would be in the way of a split or a merge that comes at once."""
    with Stage() as stage:
        stage.call(stage.clients[0].topics.set_retention("public/default", -1))
        yield stage


def test_the_requests_of_the_page_are_answered(stage: Stage) -> None:
    requests = [shlex.split(line) for line in LINES if line.startswith("curl ")]
    assert requests
    for words in requests:
        parser = argparse.ArgumentParser()
        parser.add_argument("url")
        parser.add_argument("-X", default="GET")
        parser.add_argument("-H", action="append", default=[])
        parser.add_argument("-d")
        sent = parser.parse_args(words[1:])
        parts = urlsplit(sent.url)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = dict(each.split(":", 1) for each in sent.H)
        answer = stage.admin.ask(sent.X, path, raw=None if sent.d is None else sent.d.encode(), headers=headers)
        assert answer.status in (200, 204), (words, answer)


def test_the_commands_of_the_page_run(
    stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line) for line in LINES if not line.startswith("curl ")]
    assert commands
    for words in commands:
        assert words[:2] == ["tidemark", "topics"]
        broker = f"tidemark://{stage.brokers[0].address}"
        assert main(["topics", "--broker", broker, *words[2:]], [register]) == EXIT_SUCCESS, words
        output = capsys.readouterr()
        assert output.out, words
        assert output.err == "", words


def test_every_path_is_on_the_page() -> None:
    missing = []
    for path, operations in DOCUMENT["paths"].items():
        base = next(each for each in BASES[::-1] if path.startswith(each))
        assert base in PAGE
        rest = path.removeprefix(base)
        missing += [f"{method} {path}" for method in operations if not is_named(f"{method.upper()} {rest}".strip())]
    assert missing == []


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all operations."""
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for each in action.choices.values():
            yield from leaves(each)


def test_every_operation_and_option_is_on_the_page() -> None:
    parsers = list(leaves(build_parser([register])))
    assert len(parsers) == 21
    missing = [parser.prog for parser in parsers if parser.prog not in PAGE]
    for parser in parsers:
        options = {each for action in parser._actions for each in action.option_strings} - {"-h", "--help"}
        missing += [f"{parser.prog} {each}" for each in options if not is_named(each)]
    assert missing == []


def test_every_limit_setting_and_member_is_on_the_page() -> None:
    names = {each.name for each in fields(AdminLimits)} | set(OVERRIDES)
    names |= set(RecordBody.model_fields) | set(StatsBody.model_fields)
    assert sorted(name for name in names if f"`{name}`" not in PAGE) == []


def test_the_picture_of_the_page_is_drawn_so() -> None:
    layout = Layout.initial(1, 0).split(0, 1).split(1, 2).merge([4, 2], 3)
    assert "\n".join(draw(layout)) in PAGE
