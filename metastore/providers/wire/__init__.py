"""x"""
from metastore.interface.store import MetadataStore
from metastore.interface.urls import Environment, StoreUrl
from metastore.providers.wire.opening import open_settings
from metastore.providers.wire.plain import refuse_watch
from metastore.providers.wire.settings import settings_of

__all__ = ["open_wire"]


async def open_wire(url: StoreUrl, environment: Environment) -> MetadataStore:
    """The provider of `oxia://`."""
    return await open_settings(settings_of(url), environment, refuse_watch)
