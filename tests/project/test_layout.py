"""The shape of the project: what lies at the top, how long a module may be, which essays must be there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("metastore", "txn", "controller", "loadtest")
TOP_LEVEL = {
    *PACKAGES,
    *("proto", "tests", "docs", ".ci"),
    *("pyproject.toml", "Makefile", "README.md", "LICENSE", ".gitignore", ".gitattributes"),
}
LONGEST_MODULE_LINES = 450
SHORTEST_ESSAY_CHARACTERS = 300

# What only ever comes from somebody's own machine, or names the place where packages are fetched. The names
# are put together here, so that this file passes its own test.
REGISTRIES = [
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("crates", "io"),
    ("proxy", "golang", "org"),
    ("repo1", "maven", "org"),
    ("repo", "maven", "apache", "org"),
    ("docker", "io"),
    ("ghcr", "io"),
    ("quay", "io"),
]
HOME_FOLDERS = ["root", r"home/\w+", r"Users/\w+", "work/(main|shared|venv|plan)"]
FOREIGN = re.compile(
    "|".join([*(r"\.".join(parts) for parts in REGISTRIES), *(f"/{folder}/" for folder in HOME_FOLDERS)])
)


def ignored_patterns() -> list[str]:
    """The lines of .gitignore, kept simple enough (a name, or a name at the top) to be understood here."""
    lines = (ROOT / ".gitignore").read_text().splitlines()
    patterns = [line.rstrip("/") for line in lines if line and not line.startswith("#")]
    for pattern in patterns:
        assert "/" not in pattern[1:], f".gitignore: {pattern} is more than a name"
        assert not pattern.startswith("!"), f".gitignore: {pattern} is an exception"
    return [*patterns, ".git"]


PATTERNS = ignored_patterns()


def is_ignored(path: Path) -> bool:
    at_top = path.parent == ROOT
    return any(fnmatch(path.name, pattern) or (at_top and pattern == f"/{path.name}") for pattern in PATTERNS)


def project_files(folder: Path) -> Iterator[Path]:
    """Every file that is part of the project: there, and not ignored."""
    for path in sorted(folder.iterdir()):
        if is_ignored(path):
            continue
        if path.is_dir():
            yield from project_files(path)
        else:
            yield path


NAMES = [str(path.relative_to(ROOT)) for path in project_files(ROOT)]
SOURCES = [name for name in NAMES if name.endswith(".py") and not name.endswith("_pb2.py")]
MODULES = [name for name in SOURCES if Path(name).parts[0] in PACKAGES]
ESSAYS = sorted({str(Path(name).parent / "__init__.py") for name in MODULES})


def docstring_of(name: str) -> str:
    """What a module says of itself; nothing if it is not there."""
    path = ROOT / name
    if not path.exists():
        return ""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def test_the_top_level_holds_what_belongs_there() -> None:
    found = {Path(name).parts[0] for name in NAMES}
    assert found - TOP_LEVEL == set()
    assert TOP_LEVEL - set(PACKAGES) - found == set()


def test_a_module_fits_in_one_head() -> None:
    lines = {name: (ROOT / name).read_text(encoding="utf-8").count("\n") for name in MODULES}
    assert {name: count for name, count in lines.items() if count > LONGEST_MODULE_LINES} == {}


def test_a_module_says_first_what_it_is() -> None:
    signs = {name: docstring_of(name).partition("\n")[0] for name in SOURCES if name not in ESSAYS}
    assert {name: sign for name, sign in signs.items() if not sign.endswith((".", ":", "?"))} == {}


def test_a_package_opens_with_an_essay() -> None:
    lengths = {name: len(docstring_of(name)) for name in ESSAYS}
    assert "metastore/__init__.py" in lengths
    assert {name: count for name, count in lengths.items() if count < SHORTEST_ESSAY_CHARACTERS} == {}


def test_a_package_announces_its_types() -> None:
    markers = {f"{Path(name).parts[0]}/py.typed" for name in MODULES}
    assert markers - set(NAMES) == set()


def test_test_modules_have_names_of_their_own() -> None:
    counts = Counter(Path(name).name for name in SOURCES if Path(name).name.startswith("test_"))
    assert {name: count for name, count in counts.items() if count > 1} == {}


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = {}
    for name in NAMES:
        data = (ROOT / name).read_bytes()
        if b"\0" not in data:
            found[name] = [line for line in data.decode().splitlines() if FOREIGN.search(line)]
    assert "pyproject.toml" in found
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("text", ["see " + ".".join(parts) for parts in REGISTRIES] + ["cd /" + "root/x"])
def test_a_foreign_name_is_recognised(text: str) -> None:
    assert FOREIGN.search(text)
