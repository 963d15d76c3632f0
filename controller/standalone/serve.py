"""From options to all that runs, and to its end at a signal."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial

from controller.admin import AdminConfigError, AdminListenError
from controller.broker import ConfigError
from controller.broker.serve import START_ERRORS, run_until_stopped
from controller.standalone.config import StandaloneConfig
from controller.standalone.locking import DirectoryTaken
from controller.standalone.metadata import MetadataFailed
from controller.standalone.standalone import Standalone
from metastore.commandline import UsageError
from metastore.faults import faults_from_environment
from metastore.logs import set_up_logging

FORESEEN = (*START_ERRORS, AdminListenError, DirectoryTaken, MetadataFailed)

logger = logging.getLogger("tidemark.standalone")


def serve(make_config: Callable[[], StandaloneConfig], log_json: bool) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code."""
    try:
        config = make_config()
    except (ConfigError, AdminConfigError) as error:
        raise UsageError(str(error)) from error
    set_up_logging(log_json)
    run_until_stopped(partial(_serve, config), FORESEEN)
    return 0


async def _serve(config: StandaloneConfig, stop: asyncio.Event) -> None:
    async with Standalone(config, faults=faults_from_environment(os.environ)) as one:
        logger.info("%s", _ready_line(one))
        await stop.wait()
        logger.info("asked to stop: streams end, segments are let go, the metadata service last")
    logger.info("stopped")


def _ready_line(one: Standalone) -> str:
    admin = "" if one.admin_url is None else f", admin service at {one.admin_url}"
    metrics = f"http://{one.metadata.metrics_address}/metrics"
    port = one.broker.metrics_port
    more = "" if port is None else f", the broker's on port {port}"
    where = f"ready on {one.broker.address}: metadata at {one.store_url}{admin}, metrics at {metrics}{more}"
    return f"{where}, data in {one.config.data_dir}"
