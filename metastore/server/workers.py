"""Several processes serving one service: each has some of the shards and a port of its own.

The parent owns the data directory, starts the workers, and starts a worker again that has died; but one that ends
before it ever served fails the whole start, because it would only end again. The parent serves nothing itself: the
first worker has the public port, and every worker knows where each shard is. A worker gets its orders through its
standard input, and ends when that is closed: so no worker outlives its parent, however the parent dies.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from metastore.addresses import join_address
from metastore.directory import Namespace, NamespaceConfig
from metastore.server.config import ServerConfig, split_address
from metastore.server.process import WorkerPlan
from metastore.server.supervised import READY

START_WITHIN_S = 60.0
STOP_WITHIN_S = 4.5
"""For all workers together."""
RESTART_PAUSE_S = 0.2
"""Between the death of a worker and its next start."""
WORKER_MODULE = "metastore.server.worker"

logger = logging.getLogger("tidemark.metastore")


class WorkerFailed(Exception):
    """A worker did not start."""


def plan_workers(config: ServerConfig, namespaces: list[Namespace], identity: str = "") -> list[WorkerPlan]:
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
            identity=identity,
        )
        for index in range(count)
    ]


def encode_orders(config: ServerConfig, plan: WorkerPlan, log_json: bool) -> str:
    """What a worker is told, as one line."""
    return json.dumps({"config": asdict(config), "plan": asdict(plan), "log_json": log_json}, default=str)


def decode_orders(line: str) -> tuple[ServerConfig, WorkerPlan, bool]:
    """Reads `encode_orders`."""
    orders = json.loads(line)
    config, plan = orders["config"], orders["plan"]
    for name in ("data_dir", "tls_cert_file", "tls_key_file", "tls_client_ca_file", "tokens_file"):
        config[name] = None if config[name] is None else Path(config[name])
    config["namespaces"] = tuple(NamespaceConfig(**each) for each in config["namespaces"])
    plan["namespaces"] = tuple(Namespace(**each) for each in plan["namespaces"])
    plan["ports"] = tuple(plan["ports"])
    return ServerConfig(**config), WorkerPlan(**plan), bool(orders["log_json"])


class Worker:
    """A worker process and the thread that keeps it alive."""

    def __init__(self, config: ServerConfig, plan: WorkerPlan, log_json: bool) -> None:
        self._orders = encode_orders(config, plan, log_json)
        self.index = plan.index
        self._settled = threading.Event()
        """The process serves, or has shown that it cannot."""
        self._has_served = False
        self._said = ""
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._keep, name=f"worker-{plan.index}", daemon=True)

    def start(self) -> None:
        """Starts the process, and once it has served starts it again whenever it has died."""
        self._thread.start()

    def await_start(self, within_s: float) -> None:
        """Returns when the process serves."""
        if not self._settled.wait(within_s):
            raise WorkerFailed(f"worker {self.index} did not start within {START_WITHIN_S:.0f} s")
        if not self._has_served:
            raise WorkerFailed(f"worker {self.index} cannot start: {self._said or 'its log lines may say why'}")

    def _keep(self) -> None:
        while not self._stopping.is_set():
            code = self._run_once()
            if self._stopping.is_set():
                return
            if not self._has_served:
                self._settled.set()
                return
            logger.warning("worker %d ended with code %d; starting it again", self.index, code)
            self._stopping.wait(RESTART_PAUSE_S)

    def _run_once(self) -> int:
        command = [sys.executable, "-m", WORKER_MODULE]
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
            self._said = process.stdout.readline().strip()
            if self._said == READY:
                self._has_served = True
                self._settled.set()
            elif self._said:
                logger.error("worker %d cannot start: %s", self.index, self._said)
            return process.wait()

    def begin_stopping(self) -> None:
        """Asks the process to end."""
        self._stopping.set()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def finish_stopping(self, within_s: float) -> None:
        """Waits for the process; kills it if it takes too long."""
        self._thread.join(within_s)
        if self._thread.is_alive() and self._process is not None:
            logger.warning("worker %d does not stop: killing it", self.index)
            self._process.kill()
            self._thread.join()


class Workers:
    """All workers of a service."""

    def __init__(self, config: ServerConfig, plans: list[WorkerPlan], log_json: bool) -> None:
        self.workers = [Worker(config, plan, log_json) for plan in plans]

    def start(self) -> None:
        """Starts them and waits until all serve; if one cannot, none does."""
        for worker in self.workers:
            worker.start()
        end_s = time.monotonic() + START_WITHIN_S
        try:
            for worker in self.workers:
                worker.await_start(max(0.0, end_s - time.monotonic()))
        except WorkerFailed:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends them all."""
        for worker in self.workers:
            worker.begin_stopping()
        end_s = time.monotonic() + STOP_WITHIN_S
        for worker in self.workers:
            worker.finish_stopping(max(0.0, end_s - time.monotonic()))
