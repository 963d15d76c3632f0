"""Stores by URL: `open_store("lmdb:///var/lib/x")`, through providers that are registered as entry points.

A provider is an async function of a `StoreUrl` and an `Environment` that returns a `MetadataStore`; it is registered
under its scheme in the entry-point group `tidemark.stores`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from urllib.parse import SplitResult, parse_qsl, unquote

from metastore.addresses import split_url
from metastore.clock import Clock, SystemClock
from metastore.faults import NO_FAULTS, Faults
from metastore.interface.errors import InvalidUrl
from metastore.interface.store import MetadataStore

GROUP = "tidemark.stores"


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A store's address, taken apart."""

    text: str
    scheme: str
    host: str
    port: int | None
    path: str
    """With its leading slash, or empty; percent signs decoded."""
    options: Mapping[str, str]
    more_servers: tuple[tuple[str, int | None], ...] = ()
    """Of `host:port,host:port`: hosts and ports behind the first one."""

    @property
    def servers(self) -> tuple[tuple[str, int | None], ...]:
        """Every host and port, at least one."""
        return ((self.host, self.port), *self.more_servers)

    @classmethod
    def parse(cls, text: str) -> StoreUrl:
        """Raises InvalidUrl where the text is no URL of a store."""
        scheme, separator, _ = text.partition("://")
        if not separator or not scheme:
            raise InvalidUrl(f"{text!r} is not the URL of a store: scheme://host:port/path?option=value is expected")
        try:
            parts, *others = split_url(text)
            port = parts.port
            more_servers = tuple(map(_further_server, others))
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError as error:
            raise InvalidUrl(f"{text!r} is not the URL of a store: {error}") from None
        if parts.fragment:
            raise InvalidUrl(f"{text!r}: a store's URL has no fragment (#): write it as %23")
        if parts.username is not None or parts.password is not None:
            raise InvalidUrl(f"the URL of {parts.hostname}: name a token file as an option, not a user in the address")
        options = dict(pairs)
        if len(options) < len(pairs):
            raise InvalidUrl(f"{text!r}: an option is given twice")
        return cls(text, parts.scheme, parts.hostname or "", port, unquote(parts.path), options, more_servers)

    def check_options(self, known: Iterable[str]) -> None:
        """Raises InvalidUrl for an option that the provider does not have."""
        known = sorted(known)
        for name in self.options:
            if name not in known:
                allowed = ", ".join(known) or "none"
                raise InvalidUrl(f"{self.text!r}: unknown option {name!r}; {self.scheme}:// has: {allowed}")


def _further_server(parts: SplitResult) -> tuple[str, int | None]:
    """A host and a port behind the first one."""
    if not parts.hostname or parts.username is not None:
        raise ValueError(f"{parts.netloc!r} is not host:port")
    return parts.hostname, parts.port


@dataclass(frozen=True, slots=True)
class Environment:
    """What a store takes from outside, so that tests can give it something else."""

    clock: Clock = field(default_factory=SystemClock)
    faults: Faults = NO_FAULTS
    random: random.Random = field(default_factory=random.Random)


Provider = Callable[[StoreUrl, Environment], Awaitable[MetadataStore]]


def schemes() -> list[str]:
    """The schemes that there are providers for."""
    return sorted({point.name for point in entry_points(group=GROUP)})


async def open_store(url: str, environment: Environment | None = None) -> MetadataStore:
    """Opens the store at a URL, to be used in `async with await open_store(url) as store`.

    InvalidUrl if the URL is none, or nobody knows its scheme.
    """
    parsed = StoreUrl.parse(url)
    for point in entry_points(group=GROUP):
        if point.name == parsed.scheme:
            provider: Provider = point.load()
            return await provider(parsed, environment or Environment())
    known = ", ".join(f"{scheme}://" for scheme in schemes()) or "none"
    raise InvalidUrl(f"{url!r}: unknown scheme {parsed.scheme!r}; installed are: {known}")
