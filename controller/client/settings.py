"""What a URL `tidemark://host:port,host:port?option=value` says, taken apart and checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl

from controller.client.errors import InvalidRequest
from metastore.addresses import join_address, split_url
from metastore.dialling import SECURITY_OPTIONS, Security
from metastore.quantities import parse_timeout_s

SCHEME = "tidemark"
DEFAULT_PORT = 6650
OPTIONS = (*SECURITY_OPTIONS, "request_timeout")


@dataclass(frozen=True, slots=True)
class Settings:
    """Which brokers, and how patient to be with them."""

    addresses: tuple[str, ...]
    """Brokers to ask first, any of which names the others."""
    security: Security = field(default_factory=Security)
    request_timeout_s: float = 30.0
    """How long a call, a send or an acknowledgement may take, with all its attempts."""


def settings_of(url: str) -> Settings:
    """What the URL says; InvalidRequest names what it cannot say."""
    try:
        split = split_url(url)
        servers = [_server(each) for each in split]
        parts = split[0]
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise InvalidRequest(f"{url!r} is not the URL of brokers: {error}") from None
    if parts.scheme != SCHEME or parts.path.strip("/") or parts.fragment:
        expected = f"{SCHEME}://HOST:PORT,HOST:PORT?OPTION=VALUE"
        raise InvalidRequest(f"{url!r} is not the URL of brokers: {expected} is expected")
    options = dict(pairs)
    unknown = sorted(options.keys() - set(OPTIONS))
    if unknown or len(options) < len(pairs):
        raise InvalidRequest(f"{url!r}: unknown options {unknown}, or one that is given twice; there are {OPTIONS}")
    return Settings(tuple(servers), _security(url, options), _timeout_s(url, options))


def _server(parts: SplitResult) -> str:
    """A `host:port` as gRPC dials it."""
    if not parts.hostname or parts.username is not None or parts.port == 0:
        raise ValueError(f"{parts.netloc!r} is not HOST:PORT")
    return join_address(parts.hostname, parts.port or DEFAULT_PORT)


def _security(url: str, options: dict[str, str]) -> Security:
    try:
        return Security.of(options)
    except ValueError as error:
        raise InvalidRequest(f"{url!r}: {error}") from None


def _timeout_s(url: str, options: dict[str, str]) -> float:
    text = options.get("request_timeout")
    try:
        return Settings(()).request_timeout_s if text is None else parse_timeout_s(text)
    except ValueError as error:
        raise InvalidRequest(f"{url!r}: request_timeout: {error}") from None
