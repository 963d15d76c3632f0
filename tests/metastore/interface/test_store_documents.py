"""The pages about the contract: their examples run, the provider that they write passes the suite."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from metastore.interface import Capabilities, InvalidUrl, checks, errors, open_store
from support.stores import STORE_VARIABLE

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SELECTED = "records or indexes or tokens or transactions or blocking"
"""Of the suite: some of everything, since the example only passes on what is tested elsewhere."""
CONTINUED = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""Examples that go on from each other."""
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_examples_of_the_contract_run() -> None:
    async def run_all() -> None:
        names: dict[str, Any] = {}
        for code in examples:
            compiled = compile(code, "docs/store.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            outcome = eval(compiled, names)
            if inspect.isawaitable(outcome):
                await outcome

    examples = CONTINUED.findall(page("store.md"))
    assert len(examples) > 10
    asyncio.run(run_all())


def test_every_error_limit_and_capability_is_on_the_page() -> None:
    text = page("store.md")
    leaves = [name for name in vars(errors) if name[0].isupper() and isinstance(vars(errors)[name], type)]
    leaves.remove("FailedCondition")
    limits = [name for name in vars(checks) if re.fullmatch(r"[A-Z_]+_(MAX|MIN)", name)]
    limits.remove("SEQUENCE_DELTA_MAX")
    missing = [name for name in (*leaves, *limits, *Capabilities.__annotations__) if f"`{name}" not in text]
    assert missing == []


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example provider as a package that is installed in a folder of the import path."""
    (code,) = EXAMPLE.findall(page("providers.md"))
    (entry_points,) = TOML.findall(page("providers.md"))
    (tmp_path / "timed_store.py").write_text(code)
    about = tmp_path / "timed_store-1.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: timed-store\nVersion: 1\n")
    group = entry_points.replace('[project.entry-points."tidemark.stores"]', "[tidemark.stores]").replace('"', "")
    about.joinpath("entry_points.txt").write_text(group)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_example_provider_is_found(installed: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use() -> None:
        async with await open_store("timed://memory?slower_than_ms=0") as store:
            await store.put("/a", b"1")
            found = await store.get("/a")
            assert found is not None
            assert [key async for key in store.list()] == ["/a"]
        for url in ("timed://", "timed://memory?slower_than_ms=x", "timed://memory?colour=blue", "timed://nobody/x"):
            with pytest.raises(InvalidUrl):
                await open_store(url)

    asyncio.run(use())
    assert "put of '/a' took" in caplog.text


def test_the_example_provider_passes_the_suite(installed: Path) -> None:
    """In a process of its own, as its author would do it."""
    environment = {
        **os.environ,
        STORE_VARIABLE: "timed://memory/suite",
        "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT), str(ROOT / "tests")]),
    }
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance/store", "-k", SELECTED],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "passed" in finished.stdout
