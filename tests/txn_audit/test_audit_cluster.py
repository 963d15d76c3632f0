"""On a cluster of Spark, whose executors have neither the store's directory nor this project's code."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from audit_stage import elsewhere

from metastore.clock import SystemClock
from metastore.interface import open_store
from support.server import PROJECT_ROOT, ServerProcess
from support.spark import FEW_ROWS, JAVA_OPTIONS
from support.spark_cluster import SparkCluster
from txn.audit.faults import plant_fault
from txn.audit.planting import Expected, Planter

RULES = ("committed-but-skipped", "operations-without-header")
TASK_END = "SparkListenerTaskEnd"


async def plant_into(url: str) -> set[Expected]:
    """Plants some faults; what is to be found."""
    expected: set[Expected] = set()
    async with await open_store(url) as store:
        planter = Planter(store, SystemClock().wall_ms(), elsewhere)
        await planter.plant_clean(50)
        for rule in RULES:
            expected |= await plant_fault(planter, rule, 3)
    return expected


def wheel(folder: Path) -> Path:
    """The project as it is released."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=PROJECT_ROOT, check=True, capture_output=True)
    return next(folder.glob("tidemark-*.whl"))


def python_without_the_project(folder: Path) -> Path:
    """A Python that has what the project needs, and not the project."""
    script = folder / "python"
    packages = sysconfig.get_path("purelib")
    # With -S it does not follow the link in there to where the project lies.
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" -S "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    command = [str(script), "-c", "import pyarrow, metastore"]
    told = subprocess.run(command, env={"PYTHONPATH": ""}, capture_output=True, text=True, cwd=folder)
    assert "No module named 'metastore'" in told.stderr
    return script


def settings(events: Path) -> list[str]:
    """What Spark is told, as options of whoever starts it."""
    found = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        **FEW_ROWS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    return [option for name, value in found.items() for option in ("--conf", f"{name}={value}")]


def on_the_command_line(master: str, wheel: Path, spark: Sequence[str], audit: Sequence[str]) -> list[str]:
    """`tidemark` starts Spark."""
    run = [sys.executable, "-m", "metastore.commandline", "audit", "run", "--json", *audit]
    return [*run, "--master", master, "--py-files", str(wheel), *spark]


def by_spark_submit(master: str, wheel: Path, spark: Sequence[str], audit: Sequence[str]) -> list[str]:
    """Spark starts `tidemark`, by the command that the guide says."""
    archive = wheel.with_name("tidemark.zip")
    shutil.copyfile(wheel, archive)
    guide = (PROJECT_ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    said = next(code for code in re.findall(r"```sh\n(.*?)```", guide, re.DOTALL) if "\nspark-submit " in code)
    command = said.partition("\nspark-submit ")[2].replace("\\\n", "").strip()
    for word, meant in {
        "--master yarn": shlex.join(["--master", master, *spark]),
        "dist/tidemark.zip": str(archive),
        "$(python ": f"$({sys.executable} ",
        "--store oxia://store:6648": shlex.join(audit),
    }.items():
        assert word in command, f"the guide no longer says {word!r}"
        command = command.replace(word, meant)
    return ["sh", "-ec", f"exec {Path(sysconfig.get_path('scripts')) / 'spark-submit'} {command}"]


Start = Callable[[str, Path, Sequence[str], Sequence[str]], list[str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """A master and two workers."""
    with SparkCluster() as found:
        yield found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", [on_the_command_line, by_spark_submit])
def test_executors_audit_a_service_with_the_code_that_they_are_sent(
    cluster: SparkCluster, tmp_path: Path, start: Start
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": str(python_without_the_project(tmp_path)),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(PROJECT_ROOT),
    }
    with ServerProcess(shards=2) as server:
        expected = asyncio.run(plant_into(f"oxia://{server.address}"))
        audit = ["--store", f"oxia://{server.address}", *(word for rule in RULES for word in ("--rule", rule))]
        done = subprocess.run(
            start(cluster.master, wheel(tmp_path), settings(events), audit),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 5, done.stderr
    if start is on_the_command_line:
        assert "WARN" not in done.stderr, "what Spark says while it starts is told to nobody"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {Expected(*(line[name] for name in Expected._fields[:4])) for line in lines if line["type"] == "violation"}
    assert found == expected
    ended = [json.loads(line) for path in events.iterdir() for line in path.read_text().splitlines()]
    executors = {event["Task Info"]["Executor ID"] for event in ended if event["Event"] == TASK_END}
    assert len(executors) == 2
    assert "driver" not in executors
