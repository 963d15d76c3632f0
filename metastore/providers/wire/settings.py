"""What a URL `oxia://host:port/namespace?option=value` says, taken apart and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from metastore.addresses import join_address
from metastore.dialling import SECURITY_OPTIONS, Security
from metastore.interface.errors import InvalidUrl
from metastore.interface.urls import StoreUrl
from metastore.quantities import parse_timeout_s

DEFAULT_PORT = 6648
DEFAULT_NAMESPACE = "default"
KEY_SORTINGS = ("hierarchical", "natural")

LINGER_MS_MAX = 10_000
BATCH_OPERATIONS_LIMIT = 10_000
BATCH_BYTES_LIMIT = 32 << 20

OPTIONS = (
    "key_sorting",
    *SECURITY_OPTIONS,
    "request_timeout",
    "linger_ms",
    "batch_operations_max",
    "batch_bytes_max",
)

_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Settings:
    """Which store, how to reach it, and how requests are put together."""

    addresses: tuple[str, ...]
    """Servers to ask first, any of which names the others."""
    namespace: str = DEFAULT_NAMESPACE
    key_sorting: str = KEY_SORTINGS[0]
    """The order of keys of a plain Oxia, which does not tell; ours does."""
    security: Security = field(default_factory=Security)
    request_timeout_s: float = 30.0
    linger_s: float = 0.0
    """How long an operation waits for company. Without it, as long as an earlier request of its shard is under way."""
    batch_operations_max: int = 256
    batch_bytes_max: int = 512 << 10
    """A single larger operation goes alone."""


def settings_of(url: StoreUrl) -> Settings:
    """What the URL says; InvalidUrl names what it cannot say."""
    url.check_options(OPTIONS)
    namespace = url.path.strip("/") or DEFAULT_NAMESPACE
    if not _NAMESPACE.fullmatch(namespace) or ".." in namespace:
        raise InvalidUrl(f"{url.text!r}: {namespace!r} is no namespace: letters, digits and _.- are allowed")
    defaults = Settings(())
    return Settings(
        addresses=tuple(_address(url, host, port) for host, port in url.servers),
        namespace=namespace,
        key_sorting=_choice(url, "key_sorting", KEY_SORTINGS),
        security=_security(url),
        request_timeout_s=_timeout_s(url, defaults.request_timeout_s),
        linger_s=_number(url, "linger_ms", 0, 0, LINGER_MS_MAX) / 1000,
        batch_operations_max=_number(
            url, "batch_operations_max", defaults.batch_operations_max, 1, BATCH_OPERATIONS_LIMIT
        ),
        batch_bytes_max=_number(url, "batch_bytes_max", defaults.batch_bytes_max, 1, BATCH_BYTES_LIMIT),
    )


def _address(url: StoreUrl, host: str, port: int | None) -> str:
    if not host or set(host) & set("/?#@ "):
        raise InvalidUrl(f"{url.text!r} names no server: oxia://HOST:PORT/NAMESPACE is expected")
    if port == 0:
        raise InvalidUrl(f"{url.text!r}: nobody can be reached at port 0")
    return join_address(host, port or DEFAULT_PORT)


def _choice(url: StoreUrl, name: str, choices: tuple[str, ...]) -> str:
    """One of the choices; the first is the default."""
    value = url.options.get(name, choices[0])
    if value not in choices:
        raise InvalidUrl(f"{url.text!r}: {name} is {value!r}: one of {', '.join(choices)}")
    return value


def _security(url: StoreUrl) -> Security:
    try:
        return Security.of(url.options)
    except ValueError as error:
        raise InvalidUrl(f"{url.text!r}: {error}") from None


def _number(url: StoreUrl, name: str, default: int, low: int, high: int) -> int:
    text = url.options.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,12}", text) or not low <= int(text) <= high:
        raise InvalidUrl(f"{url.text!r}: {name} is {text!r}: a number from {low} to {high}")
    return int(text)


def _timeout_s(url: StoreUrl, default_s: float) -> float:
    text = url.options.get("request_timeout")
    try:
        return default_s if text is None else parse_timeout_s(text)
    except ValueError as error:
        raise InvalidUrl(f"{url.text!r}: request_timeout: {error}") from None
