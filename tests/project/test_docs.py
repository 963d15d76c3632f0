"""The documents keep up with the code: commands, options, metrics, links and examples."""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from metastore.commandline import ENTRY_POINT_GROUP, build_parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

METRICS = ("metastore/server", "controller/broker")
METRIC_NAME = re.compile(r"(tidemark|oxia)_[a-z0-9_]+")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
FOREIGN_LINK = re.compile(r"[a-z]+:")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def is_named(word: str, text: str) -> bool:
    """Whether a page has this word as a whole, not only as the beginning of a longer one."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def whole_parser() -> argparse.ArgumentParser:
    """The parser with the commands that pyproject.toml declares, installed or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["entry-points"][ENTRY_POINT_GROUP]
    return build_parser(EntryPoint(name, value, ENTRY_POINT_GROUP).load() for name, value in declared.items())


def walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of all commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from walk(below)


def long_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from (option for option in action.option_strings if option.startswith("--"))


def test_every_command_and_option_is_on_the_page_of_the_command_line() -> None:
    text = page("cli.md")
    parsers = list(walk(whole_parser()))
    assert {"tidemark", "tidemark metastore", "tidemark client put"} <= {parser.prog for parser in parsers}
    missing = [parser.prog for parser in parsers if not is_named(parser.prog, text)]
    missing += [
        f"{parser.prog} {option}" for parser in parsers for option in long_options(parser) if not is_named(option, text)
    ]
    assert missing == []


def test_every_command_and_argument_explains_itself() -> None:
    mute = [
        f"{parser.prog} {action.dest}"
        for parser in walk(whole_parser())
        for action in parser._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert mute == []


def metric_names() -> set[str]:
    """Every text in the metrics modules that is nothing but the name of a metric."""
    names = set()
    for path in (each for folder in METRICS for each in (ROOT / folder).rglob("metrics*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= {node.value} if METRIC_NAME.fullmatch(node.value) else set()
    return names


def test_every_metric_is_on_the_page_of_metrics() -> None:
    text = page("metrics.md")
    names = metric_names()
    assert names
    # Prometheus shows a counter under its name and `_total`.
    documented = {name for name in names if is_named(name, text) or is_named(f"{name}_total", text)}
    assert names - documented == set()


def anchors(path: Path) -> set[str]:
    """The names by which the headings of a page can be linked to."""
    headings = HEADING.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if FOREIGN_LINK.match(link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        found = target.exists() and (not anchor or anchor in anchors(target))
        if not found:
            broken.append(link)
    assert broken == []


def complaint(code: str) -> str | None:
    """What Python has against an example."""
    try:
        compile(code, "example", "exec")
    except SyntaxError as error:
        return str(error)
    return None


def test_python_examples_compile() -> None:
    examples = [
        (path.name, code)
        for path in PAGES
        for language, code in FENCE.findall(path.read_text(encoding="utf-8"))
        if language == "python"
    ]
    assert "README.md" in [name for name, _ in examples]
    assert [(name, complaint(code)) for name, code in examples if complaint(code)] == []
    assert complaint("print(") is not None


def test_the_check_of_words_wants_whole_words() -> None:
    assert is_named("--key", "`--key KEY`")
    assert not is_named("--key", "`--key-sorting`")
    assert is_named("tidemark_puts", "| `tidemark_puts` |")
    assert not is_named("tidemark_puts", "| `tidemark_puts_total` |")
