"""Which kind of store a URL means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metastore.interface import InvalidUrl, StoreUrl
from metastore.spark.errors import WrongOption

if TYPE_CHECKING:
    from metastore.spark.stores.files import DirectoryShards
    from metastore.spark.stores.model import SourceStore


def open_source(url: str, namespace: str | None) -> SourceStore:
    """The store at a URL, open for reading; the namespace may be given beside it."""
    try:
        parsed = StoreUrl.parse(url)
        if parsed.scheme == "memory":
            raise WrongOption(f"{url}: a store in the memory of one process cannot be read by the processes of Spark")
        if parsed.scheme == "lmdb":
            from metastore.spark.stores.directory import DirectoryStore

            return DirectoryStore(directory_at(parsed, namespace))
        if parsed.scheme == "oxia":
            from metastore.spark.stores.service import open_service

            return open_service(parsed, namespace)
    except InvalidUrl as error:
        raise WrongOption(str(error)) from None
    if namespace is not None:
        raise WrongOption(f'{url}: a store of this kind has no namespaces: leave out the option "namespace"')
    from metastore.spark.stores.contract import ContractStore, Undivided
    from metastore.spark.stores.loop import Loop

    loop = Loop(url)
    return ContractStore(loop, Undivided(loop.store))


def directory_at(url: StoreUrl, namespace: str | None) -> DirectoryShards:
    """The shards at a URL of a directory; the namespace may be given beside it."""
    from metastore.providers.local.settings import Settings
    from metastore.spark.stores.files import DirectoryShards

    settings = Settings.of(url)
    return DirectoryShards(settings.path.absolute(), namespace or settings.namespace)
