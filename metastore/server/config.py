"""What a service may be told: flags, and a TOML file for what flags cannot say.

    [[namespaces]]
    name = "default"
    shards = 4
    key_sorting = "hierarchical"
    notifications = true

A flag wins over the file. Without `[[namespaces]]` there is one namespace, `default`, shaped by the flags.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from metastore import addresses
from metastore.addresses import EVERY_ADDRESS, PORT_MAX, is_loopback
from metastore.directory import DEFAULT_NAMESPACE, KEY_SORTINGS, SHARDS_MAX, NamespaceConfig
from metastore.quantities import parse_duration_ms, parse_size_bytes

DEFAULT_PUBLIC_ADDRESS = "127.0.0.1:6648"
DEFAULT_METRICS_ADDRESS = "127.0.0.1:8080"
WORKERS_MAX = 64


class ConfigError(Exception):
    """A setting that cannot be; the text names it and what is allowed."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Everything that a service may be told, with the defaults."""

    public_addr: str = DEFAULT_PUBLIC_ADDRESS
    metrics_addr: str = DEFAULT_METRICS_ADDRESS
    advertise: str | None = None
    shards: int = 1
    workers: int = 1
    data_dir: Path = Path("./data")
    key_sorting: str = "hierarchical"
    notifications_enabled: bool = True
    notifications_retention_time: str = "1h"
    sync_data: bool = True
    quota: str | None = None
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    tls_client_ca_file: Path | None = None
    tokens_file: Path | None = None
    insecure: bool = False
    namespaces: tuple[NamespaceConfig, ...] = field(default=())

    @property
    def retention_ms(self) -> int:
        """How long changes are kept for subscribers."""
        return _parsed(parse_duration_ms, self.notifications_retention_time)

    @property
    def quota_bytes(self) -> int | None:
        """What one shard may take."""
        return None if self.quota is None else _parsed(parse_size_bytes, self.quota)

    @property
    def is_tls(self) -> bool:
        """Whether clients speak TLS."""
        return self.tls_cert_file is not None

    def wanted_namespaces(self) -> tuple[NamespaceConfig, ...]:
        """The namespaces to serve."""
        default = NamespaceConfig(DEFAULT_NAMESPACE, self.shards, self.key_sorting, self.notifications_enabled)
        return self.namespaces or (default,)

    def check(self) -> ServerConfig:
        """This configuration, if it can be."""
        _check_range("shards", self.shards, SHARDS_MAX)
        _check_range("workers", self.workers, WORKERS_MAX)
        _check_choice("key-sorting", self.key_sorting)
        self._check_ports()
        if self.retention_ms < 0 or (self.quota_bytes is not None and self.quota_bytes <= 0):
            raise ConfigError("quota must be positive")
        names = [namespace.name for namespace in self.namespaces]
        for namespace in self.namespaces:
            try:
                namespace.check()
            except ValueError as error:
                raise ConfigError(str(error)) from error
        if len(set(names)) != len(names):
            raise ConfigError("a namespace is configured twice")
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ConfigError("tls-cert-file and tls-key-file belong together: give both or none")
        if self.tls_client_ca_file is not None and not self.is_tls:
            raise ConfigError("tls-client-ca-file needs tls-cert-file and tls-key-file")
        self._check_exposure()
        return self

    def _check_ports(self) -> None:
        """Workers count their ports up from the configured ones: these must exist, and keep out of each other's way."""
        host, port = split_address("public-addr", self.public_addr)
        metrics_host, metrics_port = split_address("metrics-addr", self.metrics_addr)
        if not port and (self.workers > 1 or self.advertise is not None):
            raise ConfigError("public-addr must name a port, not 0, where clients are told of it")
        if self.workers > 1 and host in EVERY_ADDRESS and self.advertise is None:
            raise ConfigError(
                f"clients cannot be sent from worker to worker by the host of public-addr {self.public_addr}: "
                "say with --advertise by which host they reach this machine"
            )
        public = range(port, port + self.workers) if port else range(0)
        metrics = range(metrics_port, metrics_port + self.workers) if metrics_port else range(0)
        for what, ports in (("public-addr", public), ("metrics-addr", metrics)):
            if ports and ports[-1] > PORT_MAX:
                raise ConfigError(f"{what}: {self.workers} workers need the ports {ports[0]} to {ports[-1]}")
        common = sorted(set(public) & set(metrics))
        if common and (host == metrics_host or not {host, metrics_host}.isdisjoint(EVERY_ADDRESS)):
            raise ConfigError(
                f"public-addr {self.public_addr} and metrics-addr {self.metrics_addr} meet on port {common[0]}: "
                f"each needs {self.workers} of its own, counted up from there"
            )

    def _check_exposure(self) -> None:
        host, _ = split_address("public-addr", self.public_addr)
        protected = self.is_tls or self.tokens_file is not None
        if not is_loopback(host) and not protected and not self.insecure:
            raise ConfigError(
                f"public-addr {self.public_addr} is open to the network, without TLS and without tokens: "
                "give --tls-cert-file and --tls-key-file, or --tokens-file, "
                "or say --insecure if the network is trusted"
            )


def _parsed(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _check_range(what: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise ConfigError(f"{what} must be between 1 and {most}, got {value}")


def _check_choice(what: str, value: str) -> None:
    if value not in KEY_SORTINGS:
        raise ConfigError(f"{what} must be one of {', '.join(KEY_SORTINGS)}, got {value!r}")


def split_address(what: str, address: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; an IPv6 host stands in brackets."""
    try:
        return addresses.split_address(address)
    except ValueError:
        raise ConfigError(f"{what} must be HOST:PORT, got {address!r}") from None


def load_config(path: Path | None, flags: dict[str, Any]) -> ServerConfig:
    """The configuration of a file (if there is one) and of the flags that were given."""
    config = ServerConfig()
    if path is not None:
        config = _from_file(config, path)
    given = {name: value for name, value in flags.items() if value is not None}
    config = replace(config, **given)
    if given.keys() & {"shards", "key_sorting", "notifications_enabled"} and config.namespaces:
        raise ConfigError("shards, key-sorting and notifications-enabled belong into [[namespaces]] of the file")
    return config.check()


def _from_file(config: ServerConfig, path: Path) -> ServerConfig:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    tables = table.pop("namespaces", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise ConfigError(f"{path}: namespaces must be tables: write [[namespaces]] above the settings of each")
    namespaces = tuple(NamespaceConfig(**_typed(f"{path}, [[namespaces]]", each, NamespaceConfig())) for each in tables)
    return replace(config, **_typed(str(path), table, config), namespaces=namespaces)


def _typed(where: str, table: dict[str, Any], example: Any) -> dict[str, Any]:
    """The settings of a table, each of the type that its default has."""
    known = {each.name: each.type for each in fields(example)}
    settings: dict[str, Any] = {}
    for name, value in table.items():
        field_name = name.replace("-", "_")
        kind = str(known.get(field_name, ""))
        if not kind:
            names = ", ".join(sorted(each.replace("_", "-") for each in known))
            raise ConfigError(f"{where}: unknown setting {name!r}: known are {names}")
        expected: type = bool if kind == "bool" else int if kind == "int" else str
        if type(value) is not expected:
            raise ConfigError(f"{where}: {name} must be of type {expected.__name__}, got {value!r}")
        settings[field_name] = Path(str(value)) if "Path" in kind else value
    return settings
