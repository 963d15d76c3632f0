"""Every Python example of the README and of docs/ runs and prints what it says, with a server where it names one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  +# (.*)$", re.MULTILINE)
"""A print whose comment is what it prints."""
SERVER_ADDRESS = "127.0.0.1:6648"
WITHIN_S = 60.0

EXAMPLES = [
    pytest.param(code, id=f"{path.relative_to(ROOT)}-{number}")
    for path in PAGES
    for number, code in enumerate(FENCE.findall(path.read_text(encoding="utf-8")), 1)
]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as server:
        yield server


def test_there_are_examples() -> None:
    assert any("README.md" in str(example.id) for example in EXAMPLES)


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs_and_prints_what_it_says(code: str, server: ServerProcess, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(code.replace(SERVER_ADDRESS, server.address), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "error", script.name], cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    printed = ended.stdout.splitlines()
    for line in PRINTED.findall(code):
        assert line in printed
