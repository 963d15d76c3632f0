"""Connects to a ZooKeeper, and finds a store there or makes one."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from metastore.interface import Environment, InvalidUrl, StoreFailed, Unavailable
from metastore.providers.zookeeper.batching import FIRST_PAUSE_S, Cut
from metastore.providers.zookeeper.connection import Conflict, Connection
from metastore.providers.zookeeper.head import Head
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.operations import Kind, Operation
from metastore.providers.zookeeper.records import decode_line, encode_line
from metastore.providers.zookeeper.settings import KEY_SORTINGS, Settings
from metastore.providers.zookeeper.store import ZookeeperStore

FORMAT = "tidemark-zookeeper-1"
CONNECTION_TIMEOUT_MS = 10_000
"""After so long without an answer another server is tried. Nothing depends on this session of ZooKeeper's."""


async def open_settings(settings: Settings, environment: Environment) -> ZookeeperStore:
    """Raises Unavailable if no server answers in time, and InvalidUrl if the store is not as the URL says."""
    connection = Connection(settings.servers, CONNECTION_TIMEOUT_MS, settings.root)
    connection.start()
    try:
        async with asyncio.timeout(settings.patience_s):
            fields = await _find_or_make(connection, Layout(settings.root), settings)
        key_sorting = check(fields, settings)
    except TimeoutError:
        await connection.close()
        servers = ", ".join(settings.servers)
        raise Unavailable(f"no ZooKeeper answered at {servers} for {settings.patience_s:g} s") from None
    except BaseException:
        await connection.close()
        raise
    return ZookeeperStore(settings, key_sorting, fields["identity"], connection, environment)


async def _find_or_make(connection: Connection, layout: Layout, settings: Settings) -> dict[str, Any]:
    """What the store says of itself. Of several who make it at the same time one succeeds."""
    while True:
        node = await connection.node(layout.store)
        if node is not None:
            fields, _ = decode_line(node.data)
            return fields
        try:
            await _make_path(connection, layout.root)
            await connection.commit(new_store(layout, settings.key_sorting or KEY_SORTINGS[0]))
        except (Conflict, Cut):
            await asyncio.sleep(FIRST_PAUSE_S)


async def _make_path(connection: Connection, path: str) -> None:
    names = path.split("/")
    for end in range(2, len(names) + 1):
        above = "/".join(names[:end])
        if await connection.node(above) is None:
            await connection.until_connected()
            await connection.commit([Operation(Kind.CREATE, above)])


def new_store(layout: Layout, key_sorting: str) -> list[Operation]:
    """What makes an empty store, below a root that is there."""
    fields = {"format": FORMAT, "identity": uuid4().hex, "key_sorting": key_sorting}
    tables = [Operation(Kind.CREATE, table) for table in layout.tables]
    head = Operation(Kind.CREATE, layout.head, Head().encode())
    return [*tables, head, Operation(Kind.CREATE, layout.store, encode_line(fields))]


def check(fields: dict[str, Any], settings: Settings) -> str:
    """The key sorting of a store that is as it should be."""
    if fields.get("format") != FORMAT:
        raise StoreFailed(
            f"{settings.root} at ZooKeeper has format {fields.get('format')!r}, and this version reads {FORMAT!r}"
        )
    key_sorting = str(fields["key_sorting"])
    if settings.key_sorting not in (None, key_sorting):
        raise InvalidUrl(
            f"the store at {settings.root} has key_sorting={key_sorting}, not {settings.key_sorting}: "
            "leave the option out"
        )
    return key_sorting
