"""The released Oxia client for Java finds what it expects, on a real Oxia and on this project's server."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from peers.oxia import oxia_server
from support.server import ServerProcess

PROJECT = Path(__file__).parent / "java"
SHARDS = 4
CHECKS = 13
RUNS_WITHIN_S = 400
"""The first run fetches the client and what it needs."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

pytestmark = [pytest.mark.peers, pytest.mark.timeout(RUNS_WITHIN_S + 60)]


@pytest.mark.parametrize("whose", ["oxia", "ours"])
def test_every_check_is_ok(whose: str, tmp_path: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("there is no Maven")
    project = shutil.copytree(PROJECT, tmp_path / "java")  # Maven builds beside the sources
    with oxia_server(SHARDS, "hierarchical") if whose == "oxia" else ServerProcess(SHARDS) as server:
        command = [maven, "--batch-mode", "--quiet", "compile", "exec:java"]
        run = subprocess.run(
            [*command, f"-Dexec.args={server.address}"],
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUNS_WITHIN_S,
            check=False,
        )
    said = COLOUR.sub("", run.stdout)
    print(said)
    assert run.returncode == 0, f"{said}\n{run.stderr[-2000:]}"
    assert sum(line.startswith("ok ") for line in said.splitlines()) == CHECKS, said
