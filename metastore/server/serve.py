"""From a configuration to a running service, and to its end at a signal."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
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
from metastore.server.supervised import live_with_keeper, say_failed, say_ready
from metastore.server.workers import WorkerFailed, Workers, plan_workers

logger = logging.getLogger("tidemark.metastore")


class Service(Protocol):
    """What is started and stopped: one process, or several."""

    def start(self) -> None:
        """Serves."""

    def stop(self) -> None:
        """Serves no more."""


Announce = Callable[[str, str], None]
"""Told the address and that of the metrics, once both are served."""


def serve_supervised(config_file: Path | None, flags: dict[str, Any], log_json: bool) -> int:
    """Serves until the standard input ends, or SIGTERM; what is to be known is said on the standard output."""
    live_with_keeper()
    try:
        return serve(config_file, flags, log_json, say_ready)
    except CommandError as error:
        say_failed(error)
        return error.exit_code


def serve(config_file: Path | None, flags: dict[str, Any], log_json: bool, announce: Announce = lambda *_: None) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code."""
    try:
        config = load_config(config_file, flags)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    set_up_logging(log_json)
    block_stop_signals()
    try:
        directory = DataDirectory(config.data_dir)
        try:
            plans = plan_workers(config, directory.namespaces(config.wanted_namespaces()), directory.identity)
            service = _service(config, plans, log_json)
            service.start()
            address, metrics_address = _addresses(config, service)
            logger.info("%s", _ready_line(config, plans, address, metrics_address))
            announce(address, metrics_address)
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


def _addresses(config: ServerConfig, service: Service) -> tuple[str, str]:
    """Where it serves, and where its metrics are."""
    host, port = split_address("public-addr", config.public_addr)
    metrics_host, metrics_port = split_address("metrics-addr", config.metrics_addr)
    if isinstance(service, ServerProcess):
        port, metrics_port = service.public_port, service.metrics_port
    return join_address(host, port), join_address(metrics_host, metrics_port)


def _ready_line(config: ServerConfig, plans: list[WorkerPlan], address: str, metrics_address: str) -> str:
    """One line when all is ready; test containers wait for the words about the metrics."""
    shards = sum(namespace.shards for namespace in plans[0].namespaces)
    return (
        f"ready on {address}: {shards} shards, {config.workers} workers, data in "
        f"{config.data_dir}. Serving Prometheus metrics on http://{metrics_address}/metrics"
    )
