"""From a configuration to a running broker, and to its end at a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.broker.broker import Broker
from controller.broker.config import BrokerConfig, ConfigError, load_config
from controller.broker.front import ListenError
from metastore.commandline import CommandError, UsageError
from metastore.faults import faults_from_environment
from metastore.interface import InvalidUrl, StoreError
from metastore.logs import set_up_logging
from metastore.tokens import SecurityError
from txn.model.errors import TxnError

logger = logging.getLogger("tidemark.broker")

START_ERRORS = (ListenError, SecurityError, StoreError, TxnError, OSError)


def serve(config_file: Path | None, flags: Mapping[str, Any], log_json: bool) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code."""
    set_up_logging(log_json)
    try:
        config = load_config(config_file, flags)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    try:
        asyncio.run(_serve(config))
    except BaseExceptionGroup as group:
        raise _reason(group) from group
    except START_ERRORS as error:
        raise _told(error) from error
    return 0


def _reason(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What to tell of several errors at once: those that were foreseen; an unforeseen one is told as it is."""
    foreseen, others = group.split(START_ERRORS)
    if others is not None or foreseen is None:
        return group
    first: BaseException = foreseen
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return _told(first)


def _told(error: BaseException) -> CommandError:
    """A foreseen error as the command line tells it; a wrong URL is a wrong option."""
    return UsageError(str(error)) if isinstance(error, InvalidUrl) else CommandError(str(error))


async def _serve(config: BrokerConfig) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    async with Broker(config, faults=faults_from_environment(os.environ)) as broker:
        metrics = "" if broker.metrics_port is None else f", metrics on port {broker.metrics_port}"
        logger.info("ready on %s: broker %s, store %s%s", broker.address, broker.name, config.store, metrics)
        await stop.wait()
        logger.info("asked to stop: streams end, segments are let go")
    logger.info("stopped")
