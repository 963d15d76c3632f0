"""From a configuration to a running broker, and to its end at a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
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


Beside = Callable[[Broker], AbstractAsyncContextManager[str]]
"""What runs in the same process as long as a broker serves; it says what to tell of it."""


@asynccontextmanager
async def alone(broker: Broker) -> AsyncIterator[str]:
    """Nothing beside the broker."""
    yield ""


def serve(config_file: Path | None, flags: Mapping[str, Any], log_json: bool, beside: Beside = alone) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code."""
    try:
        config = load_config(config_file, flags)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    set_up_logging(log_json)
    run_until_stopped(partial(_serve, config, beside))
    return 0


def run_until_stopped(
    serving: Callable[[asyncio.Event], Coroutine[None, None, None]],
    foreseen: tuple[type[Exception], ...] = START_ERRORS,
) -> None:
    """Runs what serves until it is told to stop, which SIGTERM and SIGINT do. Foreseen errors are a command's."""
    try:
        asyncio.run(_with_signals(serving))
    except BaseExceptionGroup as group:
        raise _reason(group, foreseen) from group
    except foreseen as error:
        raise _told(error) from error


async def _with_signals(serving: Callable[[asyncio.Event], Coroutine[None, None, None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    await serving(stop)


def _reason(group: BaseExceptionGroup[BaseException], told: tuple[type[Exception], ...]) -> BaseException:
    """What to tell of several errors at once: those that were foreseen; an unforeseen one is told as it is."""
    foreseen, others = group.split(told)
    if others is not None or foreseen is None:
        return group
    first: BaseException = foreseen
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return _told(first)


def _told(error: BaseException) -> CommandError:
    """A foreseen error as the command line tells it; a wrong URL is a wrong option."""
    return UsageError(str(error)) if isinstance(error, InvalidUrl) else CommandError(str(error))


async def _serve(config: BrokerConfig, beside: Beside, stop: asyncio.Event) -> None:
    faults = faults_from_environment(os.environ)
    async with Broker(config, faults=faults) as broker, beside(broker) as more:
        metrics = "" if broker.metrics_port is None else f", metrics on port {broker.metrics_port}"
        told = config.store + metrics + more
        logger.info("ready on %s: broker %s, store %s", broker.address, broker.name, told)
        await stop.wait()
        logger.info("asked to stop: streams end, segments are let go")
    logger.info("stopped")
