"""A standalone cluster of Spark on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from support.ports import LOOPBACK, free_port

HOME = Path(pyspark.__file__).parent
SPARK_CLASS = HOME / "bin" / "spark-class"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
DAEMON = {"SPARK_DAEMON_MEMORY": "192m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
WORKERS = 2
START_WITHIN_S = 90.0
ATTEMPT_S = 0.1


class SparkCluster:
    """A cluster with one core in each of two workers."""

    def __init__(self) -> None:
        self._port, self._page_port = free_port(), free_port()
        self.master = f"spark://{LOOPBACK}:{self._port}"
        self._stack = ExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> SparkCluster:
        with ExitStack() as stack:
            self.folder = Path(tempfile.mkdtemp(prefix="tidemark-cluster-"))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            page = ("--webui-port", str(self._page_port))
            self._start(stack, "master", MASTER, "--host", LOOPBACK, "--port", str(self._port), *page)
            for number in range(WORKERS):
                work = ("--work-dir", str(self.folder / f"work-{number}"), "--webui-port", "0")
                size = ("--host", LOOPBACK, "--cores", "1", "--memory", "1g")
                self._start(stack, f"worker-{number}", WORKER, *size, *work, self.master)
            self._wait()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self._logs())
        self._stack.close()

    def _start(self, stack: ExitStack, name: str, *command: str) -> None:
        environment = {**os.environ, **DAEMON, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": LOOPBACK}
        environment.pop("PYTHONPATH", None)  # workers of a cluster do not have what the tests have
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(SPARK_CLASS), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )
        stack.callback(process.wait)
        stack.callback(os.killpg, process.pid, signal.SIGKILL)  # executors are their workers' children
        self._processes.append(process)

    def _wait(self) -> None:
        """Returns when the master knows all workers."""
        deadline = time.monotonic() + START_WITHIN_S
        while [each["state"] for each in self._state().get("workers", ())] != ["ALIVE"] * WORKERS:
            ended = any(process.poll() is not None for process in self._processes)
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"the cluster does not start:\n{self._logs()}")
            time.sleep(ATTEMPT_S)

    def _state(self) -> Mapping[str, Any]:
        """What the master says of itself; nothing before it listens."""
        try:
            with urlopen(f"http://{LOOPBACK}:{self._page_port}/json/", timeout=START_WITHIN_S) as answer:
                state: dict[str, Any] = json.load(answer)
                return state
        except URLError:
            return {}

    def _logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-4_000:] for path in sorted(self.folder.glob("*.log")))
