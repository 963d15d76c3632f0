"""Pulsar's own admin client drives the admin service, and finds what it expects."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.admin_stage import Stage

PROJECT = Path(__file__).parent / "pulsar_admin"
CHECKS = 16
RUNS_WITHIN_S = 400
"""The first run fetches the client and what it needs."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
TOKEN = "a-secret"

pytestmark = [pytest.mark.peers, pytest.mark.timeout(RUNS_WITHIN_S + 60)]


def test_every_check_is_ok(tmp_path: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("there is no Maven")
    project = shutil.copytree(PROJECT, tmp_path / "java")  # Maven builds beside the sources
    (tmp_path / "tokens").write_text(f"peer {TOKEN}\n")
    (tmp_path / "token").write_text(TOKEN)
    with Stage(2, tokens_file=tmp_path / "tokens", token_file=tmp_path / "token") as stage:
        command = [maven, "--batch-mode", "--quiet", "compile", "exec:java"]
        run = subprocess.run(
            [*command, f"-Dexec.args=http://{stage.admin.address} {TOKEN}"],
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
