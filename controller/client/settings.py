"""What a URL `tidemark://host:port,host:port?option=value` says, taken apart and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from controller.client.errors import InvalidRequest

SCHEME = "tidemark"
DEFAULT_PORT = 6650
TIMEOUT_MS_MAX = 24 * 3_600_000
OPTIONS = ("tls", "ca_file", "cert_file", "key_file", "token_file", "request_timeout")

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)?")
_DURATION_MS = {"ms": 1, "s": 1000, None: 1000, "m": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class Security:
    """How to reach brokers, and what proves who is there. Naming any of the files for TLS switches it on."""

    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise InvalidRequest("a client certificate takes two files: give both cert_file and key_file")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.tls or self.ca_file is not None or self.cert_file is not None


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
        parts = urlsplit(url)
        servers = [_server(each) for each in parts.netloc.split(",")]
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
    defaults = Settings(())
    return Settings(
        tuple(servers),
        Security(
            _is_true(url, options, "tls"),
            *(_path(options, name) for name in ("ca_file", "cert_file", "key_file", "token_file")),
        ),
        _timeout_s(url, options.get("request_timeout"), defaults.request_timeout_s),
    )


def _server(text: str) -> str:
    """A `host:port` as gRPC dials it."""
    parts: SplitResult = urlsplit("//" + text)
    if not parts.hostname or parts.username is not None or parts.port == 0:
        raise ValueError(f"{text!r} is not HOST:PORT")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or DEFAULT_PORT}"


def _is_true(url: str, options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false")
    if value not in ("false", "true"):
        raise InvalidRequest(f"{url!r}: {name} is {value!r}: true or false")
    return value == "true"


def _path(options: Mapping[str, str], name: str) -> Path | None:
    return Path(options[name]) if name in options else None


def _timeout_s(url: str, text: str | None, default_s: float) -> float:
    if text is None:
        return default_s
    match = _DURATION.fullmatch(text)
    timeout_ms = float(match[1]) * _DURATION_MS[match[2]] if match else 0
    if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
        raise InvalidRequest(f"{url!r}: request_timeout is {text!r}: examples are 500ms, 30s, 2m; at most 24h")
    return timeout_ms / 1000
