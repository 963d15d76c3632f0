"""URLs of stores: taken apart, refused, and led to their providers."""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from metastore.interface import Environment, InvalidUrl, MetadataStore, StoreUrl, open_store, schemes
from metastore.interface import urls as urls_module
from metastore.providers.memory import MemoryStore


def test_a_url_is_taken_apart() -> None:
    url = StoreUrl.parse("oxia://host:6648/name%20space?tls=true&token_file=%2Fa%26b&empty=")
    assert (url.scheme, url.host, url.port, url.path) == ("oxia", "host", 6648, "/name space")
    assert dict(url.options) == {"tls": "true", "token_file": "/a&b", "empty": ""}
    assert url.servers == (("host", 6648),)


def test_a_url_may_have_little() -> None:
    url = StoreUrl.parse("memory://")
    assert (url.host, url.port, url.path, dict(url.options)) == ("", None, "", {})
    assert StoreUrl.parse("lmdb:///var/lib/x").path == "/var/lib/x"


def test_a_url_may_name_several_servers() -> None:
    url = StoreUrl.parse("zk://one:2181,two:2182,[::1]/path")
    assert url.servers == (("one", 2181), ("two", 2182), ("::1", None))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "memory",
        "memory:/x",
        "://host",
        "oxia://host:port",
        "oxia://host:70000",
        "oxia://[::1",
        "oxia://one,",
        "oxia://one,user@two",
        "oxia://host/#fragment",
        "oxia://user@host",
        "oxia://user:password@host",
        "oxia://host?a",
        "oxia://host?a=1&a=2",
    ],
)
def test_what_is_no_url_of_a_store_is_refused(text: str) -> None:
    with pytest.raises(InvalidUrl):
        StoreUrl.parse(text)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(InvalidUrl) as caught:
        StoreUrl.parse("oxia://user:secret@host")
    assert "secret" not in str(caught.value)


def test_unknown_options_are_refused_by_name() -> None:
    url = StoreUrl.parse("memory://?shards=1&colour=blue")
    url.check_options(["shards", "colour"])
    with pytest.raises(InvalidUrl, match="colour"):
        url.check_options(["shards"])
    with pytest.raises(InvalidUrl, match="none"):
        url.check_options([])


def test_the_providers_of_the_project_are_installed() -> None:
    assert {"memory", "lmdb", "oxia", "zk"} <= set(schemes())


def test_an_unknown_scheme_names_those_that_are_known() -> None:
    with pytest.raises(InvalidUrl, match="memory://"):
        asyncio.run(open_store("nobody://x"))


def test_anybody_may_add_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mine", f"{__name__}:open_mine", urls_module.GROUP)
    monkeypatch.setattr(urls_module, "entry_points", lambda group: EntryPoints([point]))
    assert schemes() == ["mine"]
    environment = Environment()

    async def opened() -> None:
        async with await open_store("mine://host?x=1", environment) as store:
            assert isinstance(store, Mine)
            assert (store.url.host, store.environment) == ("host", environment)

    asyncio.run(opened())


class Mine(MemoryStore):
    """A store of one's own."""

    url: StoreUrl
    environment: Environment


async def open_mine(url: StoreUrl, environment: Environment) -> MetadataStore:
    store = Mine()
    store.url, store.environment = url, environment
    return store
