"""The committed message classes are exactly what the committed `.proto` files generate."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
SOURCES = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))


def generated_names(source: str) -> list[str]:
    stem = source.removesuffix(".proto")
    return [f"{stem}_pb2.py", f"{stem}_pb2.pyi"]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that `make proto` would write."""
    output = tmp_path_factory.mktemp("generated")
    plugin = Path(sysconfig.get_path("scripts")) / "protoc-gen-mypy"
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={PROTO}",
        f"--plugin=protoc-gen-mypy={plugin}",
        f"--python_out={output}",
        f"--mypy_out={output}",
        *SOURCES,
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return output


@pytest.mark.parametrize("source", SOURCES)
def test_generating_again_changes_nothing(source: str, generated: Path) -> None:
    for name in generated_names(source):
        assert (ROOT / name).read_text() == (generated / name).read_text(), f"run `make proto`: {name} is old"


def test_nothing_generated_is_left_without_its_source() -> None:
    committed = {
        str(path.relative_to(ROOT))
        for package in {Path(source).parts[0] for source in SOURCES}
        for path in (ROOT / package).rglob("*_pb2.py*")
        if path.suffix in {".py", ".pyi"}
    }
    assert committed == {name for source in SOURCES for name in generated_names(source)}
