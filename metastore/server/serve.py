"""From a configuration to a running service, and to its end at a signal."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, Protocol

from metastore.addresses import join_address
from metastore.commandline import CommandError, UsageError
from metastore.directory import DataDirectory, DirectoryError, DirectoryOfOtherShape
from metastore.faults import faults_from_environment
from metastore.logs import set_up_logging
from metastore.server.config import ConfigError, ServerConfig, load_config, split_address
from metastore.server.process import START_ERRORS, ServerProcess, WorkerPlan
from metastore.server.signals import block_stop_signals, wait_for_stop
from metastore.server.workers import WorkerFailed, Workers, plan_workers

logger = logging.getLogger("tidemark.metastore")


class Service(Protocol):
    """What is started and stopped: one process, or several."""

    def start(self) -> None:
        """Serves."""

    def stop(self) -> None:
        """Serves no more."""


def serve(config_file: Path | None, flags: dict[str, Any], log_json: bool) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code."""
    set_up_logging(log_json)
    try:
        config = load_config(config_file, flags)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    block_stop_signals()
    try:
        directory = DataDirectory(config.data_dir)
        try:
            plans = plan_workers(config, directory.namespaces(config.wanted_namespaces()), directory.identity)
            service = _service(config, plans, log_json)
            service.start()
            logger.info("%s", _ready_line(config, plans, service))
            wait_for_stop()
            service.stop()
        finally:
            directory.close()
    except DirectoryOfOtherShape as error:
        way_out = f"--shards {error.known.shards} --key-sorting {error.known.key_sorting}"
        raise CommandError(f"{error}: start with {way_out}") from error
    except (*START_ERRORS, DirectoryError, WorkerFailed) as error:
        raise CommandError(str(error)) from error
    return 0


def _service(config: ServerConfig, plans: list[WorkerPlan], log_json: bool) -> Service:
    if config.workers > 1:
        return Workers(config, plans, log_json)
    return ServerProcess(config, plans[0], faults_from_environment(os.environ))


def _ready_line(config: ServerConfig, plans: list[WorkerPlan], service: Service) -> str:
    """One line when all is ready; test containers wait for the words about the metrics."""
    host, port = split_address("public-addr", config.public_addr)
    metrics_host, metrics_port = split_address("metrics-addr", config.metrics_addr)
    if isinstance(service, ServerProcess):
        port, metrics_port = service.public_port, service.metrics_port
    shards = sum(namespace.shards for namespace in plans[0].namespaces)
    return (
        f"ready on {join_address(host, port)}: {shards} shards, {config.workers} workers, data in "
        f"{config.data_dir}. Serving Prometheus metrics on http://{join_address(metrics_host, metrics_port)}/metrics"
    )
