"""Several processes serving one service: each has some of the shards and a port of its own.

The parent owns the data directory, starts the workers, and starts a worker again that has died. It serves nothing
itself: the first worker has the public port, and every worker knows where each shard is. A worker gets its orders
through its standard input, and ends when that is closed: so no worker outlives its parent, however the parent dies.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from metastore.server.config import NamespaceConfig, ServerConfig, join_address, split_address
from metastore.server.host import Namespace
from metastore.server.process import WorkerPlan

READY = "ready"
START_WITHIN_S = 60.0
STOP_WITHIN_S = 4.5
RESTART_PAUSE_S = 0.2
"""Between the death of a worker and its next start."""
WORKER_MODULE = "metastore.server.worker"

logger = logging.getLogger("tidemark.metastore")


class WorkerFailed(Exception):
    """A worker did not start."""


def plan_workers(config: ServerConfig, namespaces: list[Namespace]) -> list[WorkerPlan]:
    """A plan per worker: public and metrics ports are counted up from the configured ones."""
    host, port = split_address("public-addr", config.public_addr)
    metrics_host, metrics_port = split_address("metrics-addr", config.metrics_addr)
    count = config.workers
    ports = tuple(port + index for index in range(count)) if count > 1 else ()
    return [
        WorkerPlan(
            index=index,
            workers=count,
            namespaces=tuple(namespaces),
            public_addr=join_address(host, port + index),
            metrics_addr=join_address(metrics_host, metrics_port + index if metrics_port else 0),
            ports=ports,
        )
        for index in range(count)
    ]


def encode_orders(config: ServerConfig, plan: WorkerPlan) -> str:
    """What a worker is told, as one line."""
    return json.dumps({"config": asdict(config), "plan": asdict(plan)}, default=str)


def decode_orders(line: str) -> tuple[ServerConfig, WorkerPlan]:
    """Reads `encode_orders`."""
    orders = json.loads(line)
    config, plan = orders["config"], orders["plan"]
    for name in ("data_dir", "tls_cert_file", "tls_key_file", "tls_client_ca_file", "tokens_file"):
        config[name] = None if config[name] is None else Path(config[name])
    config["namespaces"] = tuple(NamespaceConfig(**each) for each in config["namespaces"])
    plan["namespaces"] = tuple(Namespace(**each) for each in plan["namespaces"])
    plan["ports"] = tuple(plan["ports"])
    return ServerConfig(**config), WorkerPlan(**plan)


class Worker:
    """A worker process and the thread that keeps it alive."""

    def __init__(self, config: ServerConfig, plan: WorkerPlan) -> None:
        self._orders = encode_orders(config, plan)
        self.index = plan.index
        self.ready = threading.Event()
        self.starts = 0
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._keep, name=f"worker-{plan.index}", daemon=True)

    def start(self) -> None:
        """Starts the process, and from then on whenever it has died."""
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    def _keep(self) -> None:
        while not self._stopping.is_set():
            code = self._run_once()
            if self._stopping.is_set():
                return
            self.ready.clear()
            logger.warning("worker %d ended with code %d; starting it again", self.index, code)
            self._stopping.wait(RESTART_PAUSE_S)

    def _run_once(self) -> int:
        command = [sys.executable, "-m", WORKER_MODULE]
        self.starts += 1
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
        ) as process:
            self._process = process
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(self._orders + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                return process.wait()
            if process.stdout.readline().strip() == READY:
                self.ready.set()
            return process.wait()

    def begin_stopping(self) -> None:
        """Asks the process to end."""
        self._stopping.set()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def finish_stopping(self, within_s: float) -> None:
        """Waits for the process; kills it if it takes too long."""
        if self._process is not None:
            try:
                self._process.wait(within_s)
            except subprocess.TimeoutExpired:
                logger.warning("worker %d does not stop: killing it", self.index)
                self._process.kill()
        self._thread.join(within_s)


class Workers:
    """All workers of a service."""

    def __init__(self, config: ServerConfig, plans: list[WorkerPlan]) -> None:
        self.workers = [Worker(config, plan) for plan in plans]

    def start(self) -> None:
        """Starts them and waits until all serve."""
        for worker in self.workers:
            worker.start()
        for worker in self.workers:
            if not worker.ready.wait(START_WITHIN_S):
                self.stop()
                raise WorkerFailed(f"worker {worker.index} did not start within {START_WITHIN_S:.0f} s")

    def stop(self) -> None:
        """Ends them all."""
        for worker in self.workers:
            worker.begin_stopping()
        for worker in self.workers:
            worker.finish_stopping(STOP_WITHIN_S)
