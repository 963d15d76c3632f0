"""What a URL says: `zk://host:port,host:port/path?option=value`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from metastore.addresses import join_address
from metastore.interface import InvalidUrl, StoreUrl
from metastore.providers.zookeeper.limits import ROOT_CHARACTERS_MAX
from metastore.quantities import parse_timeout_s

DEFAULT_PORT = 2181
KEY_SORTINGS = ("hierarchical", "natural")
OPTIONS = ("key_sorting", "request_timeout")

_PATH = re.compile(r"(/[!-.0-~]+)+")
_RESERVED = {".", "..", "zookeeper"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Which store, and how long to wait for it."""

    servers: tuple[str, ...]
    root: str
    key_sorting: str | None
    """None: as the store has it, hierarchical for a new one."""
    patience_s: float = 30.0

    @classmethod
    def of(cls, url: StoreUrl) -> Settings:
        """Raises InvalidUrl."""
        url.check_options(OPTIONS)
        key_sorting = url.options.get("key_sorting")
        if key_sorting is not None and key_sorting not in KEY_SORTINGS:
            raise InvalidUrl(f"{url.text!r}: key_sorting is {key_sorting!r}: one of {', '.join(KEY_SORTINGS)}")
        servers = tuple([_server(url, host, port) for host, port in url.servers])
        return cls(servers, _root(url), key_sorting, _patience_s(url))


def _server(url: StoreUrl, host: str, port: int | None) -> str:
    if not host or port == 0:
        raise InvalidUrl(f"{url.text!r}: zk://HOST:PORT/PATH or zk://HOST:PORT,HOST:PORT/PATH is expected")
    return join_address(host, port or DEFAULT_PORT)


def _root(url: StoreUrl) -> str:
    root = url.path.rstrip("/")
    if not _PATH.fullmatch(root) or _RESERVED & set(root.split("/")):
        raise InvalidUrl(
            f"{url.text!r}: {url.path!r} is no path for a store: one like /tidemark is expected, in printable ASCII"
        )
    if len(root) > ROOT_CHARACTERS_MAX:
        raise InvalidUrl(
            f"{url.text!r}: the path has {len(root)} characters: at most {ROOT_CHARACTERS_MAX} (ROOT_CHARACTERS_MAX)"
        )
    return root


def _patience_s(url: StoreUrl) -> float:
    try:
        return parse_timeout_s(url.options.get("request_timeout", "30s"))
    except ValueError as error:
        raise InvalidUrl(f"{url.text!r}: request_timeout: {error}") from None
