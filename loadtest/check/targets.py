"""What a URL means: which works are done there, and where to look meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controller.client import connect
from controller.client.settings import DEFAULT_PORT, SCHEME
from loadtest.check.broker_works import MessageWork, TransactionWork
from loadtest.check.evidence import Address
from loadtest.check.profiles import MESSAGES, RECORDS, TRANSACTIONS
from loadtest.check.records import RecordWork
from loadtest.check.works import Work
from metastore.addresses import join_address, split_url
from metastore.commandline import CommandError
from metastore.interface import StoreUrl, open_promptly

STORE_METRICS_PORT = 8080
BROKER_METRICS_PORT = 8090
REACHED_WITHIN_S = 10.0


def kinds_of(url: str) -> tuple[str, ...]:
    """The works that are done at a URL."""
    return (MESSAGES, TRANSACTIONS) if is_broker(url) else (RECORDS,)


def is_broker(url: str) -> bool:
    return url.startswith(f"{SCHEME}://")


def servers_of(url: str) -> list[Address]:
    """The hosts and ports of a URL; none where it has none."""
    if is_broker(url):
        return [(each.hostname, each.port or DEFAULT_PORT) for each in split_url(url) if each.hostname]
    return [(host, port) for host, port in StoreUrl.parse(url).servers if host and port]


def metrics_of(url: str) -> list[str]:
    """Where metrics are if nobody has said otherwise: a broker's, and those of the store below it."""
    ports = (BROKER_METRICS_PORT, STORE_METRICS_PORT) if is_broker(url) else (STORE_METRICS_PORT,)
    return [join_address(host, port) for host, _ in servers_of(url) for port in ports]


@asynccontextmanager
async def opened(url: str, kind: str, prefix: str, discard: bool, seed: int) -> AsyncIterator[Work]:
    """A work at a URL, which is connected to while the block runs."""
    if kind == RECORDS:
        async with await open_promptly(url) as store:
            yield RecordWork(store, prefix, discard, seed)
        return
    make = MessageWork if kind == MESSAGES else TransactionWork
    try:
        async with asyncio.timeout(REACHED_WITHIN_S):
            client = await connect(url)
    except TimeoutError:
        raise CommandError(f"{url}: no answer within {REACHED_WITHIN_S:g} s: check the address") from None
    async with client:
        yield make(client, prefix, discard)
