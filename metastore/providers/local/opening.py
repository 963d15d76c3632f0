"""From a URL to an open store."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

from metastore.interface import Environment, MetadataStore, StoreUrl
from metastore.providers.local.data import OpenDirectory
from metastore.providers.local.failures import STORE_ERRORS, translated
from metastore.providers.local.settings import Settings
from metastore.providers.local.store import LocalStore


async def open_local(url: StoreUrl, environment: Environment) -> MetadataStore:
    """The provider of `lmdb://`: opens or creates a data directory, on a thread."""
    settings = Settings.of(url)
    opener = ThreadPoolExecutor(1, "tidemark-open")
    opening = opener.submit(OpenDirectory, settings, environment)
    opener.shutdown(wait=False)
    try:
        directory = await asyncio.wrap_future(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unwanted)  # nobody is left to close it
        raise
    except STORE_ERRORS as error:
        raise translated(error) from error
    return LocalStore(directory)


def _close_unwanted(opening: Future[OpenDirectory]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
