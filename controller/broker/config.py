"""What a broker may be told: flags, and a TOML file with the same settings. A flag wins over the file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from controller.broker.topics.config import TopicsConfig
from metastore.addresses import EVERY_ADDRESS, PORT_MAX, is_loopback, split_address
from metastore.dialling import Security

DEFAULT_LISTEN = "127.0.0.1:6650"
DEFAULT_METRICS_PORT = 8090
LOGS = ("local", "metastore")
NAME_BYTES_MAX = 200
SESSION_TIMEOUT_MS_MIN = 2_000
SESSION_TIMEOUT_MS_MAX = 300_000


class ConfigError(Exception):
    """A setting that cannot be; the text names it and what is allowed."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Everything that a broker may be told, with the defaults."""

    store: str = ""
    """The URL of the metadata store."""
    listen: str = DEFAULT_LISTEN
    advertise: str | None = None
    """HOST:PORT by which clients and other brokers are sent here; None: as it listens."""
    name: str | None = None
    """What other brokers know it by; None: its address."""
    log: str = "local"
    """Where the logs of the segments are that it creates and can take over."""
    data_dir: Path = Path("./data-broker")
    """Where local logs are. Brokers of one machine that share it take segments over from each other."""
    metrics_port: int | None = DEFAULT_METRICS_PORT
    """Where /metrics is, on the host of `listen`; None: nowhere."""
    admin: str | None = None
    """HOST:PORT where the admin service is, for a process that has one beside its broker; None: nowhere."""
    session_timeout_ms: int = 10_000
    """How long it may be silent before others take over what it owns."""
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    tls_client_ca_file: Path | None = None
    tokens_file: Path | None = None
    peer_tls: bool = False
    """Whether the other brokers serve TLS. They do, if this one does."""
    peer_tls_ca_file: Path | None = None
    """Who has signed their certificates; None: whom this machine trusts."""
    peer_token_file: Path | None = None
    """With what this broker proves who it is, where they want to know."""
    insecure: bool = False
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    """In files and flags its settings stand beside the others."""

    def check(self, *, has_store: bool = False) -> BrokerConfig:
        """This configuration, if it can be; a store that is open already needs no URL."""
        if not self.store and not has_store:
            raise ConfigError("store must be the URL of a metadata store: oxia://HOST:PORT, lmdb:///DIRECTORY, ...")
        if self.log not in LOGS:
            raise ConfigError(f"log must be one of {', '.join(LOGS)}, got {self.log!r}")
        if self.name is not None and not _is_name(self.name):
            raise ConfigError(f"name must be 1 to {NAME_BYTES_MAX} bytes without slashes, got {self.name[:80]!r}")
        if self.metrics_port is not None and not 0 <= self.metrics_port <= PORT_MAX:
            raise ConfigError(f"metrics-port must be between 0 and {PORT_MAX}, got {self.metrics_port}")
        if not SESSION_TIMEOUT_MS_MIN <= self.session_timeout_ms <= SESSION_TIMEOUT_MS_MAX:
            raise ConfigError(
                f"session-timeout-ms must be between {SESSION_TIMEOUT_MS_MIN} and {SESSION_TIMEOUT_MS_MAX}, "
                f"got {self.session_timeout_ms}"
            )
        self._check_security()
        self._check_addresses()
        problem = self.topics.problem()
        if problem is not None:
            raise ConfigError(problem)
        return self

    @property
    def peer_security(self) -> Security:
        """How this broker calls the others; its own certificate proves to them who it is."""
        return Security(
            self.peer_tls or self.tls_cert_file is not None,
            self.peer_tls_ca_file,
            self.tls_cert_file,
            self.tls_key_file,
            self.peer_token_file,
        )

    def _check_security(self) -> None:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ConfigError("tls-cert-file and tls-key-file belong together: give both or none")
        if self.tls_client_ca_file is not None and self.tls_cert_file is None:
            raise ConfigError("tls-client-ca-file needs tls-cert-file and tls-key-file")

    def _check_addresses(self) -> None:
        host, port = _split("listen", self.listen)
        if port and port == self.metrics_port:
            raise ConfigError(f"listen {self.listen} and metrics-port {self.metrics_port} are the same port")
        if self.advertise is not None and not _split("advertise", self.advertise)[1]:
            raise ConfigError(f"advertise must name a port, not 0: {self.advertise}")
        if self.advertise is None and host in EVERY_ADDRESS:
            raise ConfigError(
                f"clients cannot be sent to the host of listen {self.listen}: say with --advertise how they reach it"
            )
        protected = self.tls_cert_file is not None or self.tokens_file is not None
        if not is_loopback(host) and not protected and not self.insecure:
            raise ConfigError(
                f"listen {self.listen} is open to the network, without TLS and without tokens: "
                "give --tls-cert-file and --tls-key-file, or --tokens-file, "
                "or say --insecure if the network is trusted"
            )


def _is_name(name: str) -> bool:
    return 1 <= len(name.encode()) <= NAME_BYTES_MAX and "/" not in name


def _split(what: str, address: str) -> tuple[str, int]:
    try:
        return split_address(address)
    except ValueError as error:
        raise ConfigError(f"{what}: {error}") from error


def load_config(
    path: Path | None, flags: Mapping[str, Any], *, start: BrokerConfig | None = None, has_store: bool = False
) -> BrokerConfig:
    """The configuration of a file (if there is one) and of the flags that were given, on that to start with."""
    config = start or BrokerConfig()
    if path is not None:
        config = _with(config, _settings_of_file(path))
    given = {name: value for name, value in flags.items() if value is not None}
    return _with(config, given).check(has_store=has_store)


def kinds_of_settings() -> dict[str, str]:
    """The names of all settings that a file may have, and of what type each is."""
    own = {each.name: str(each.type) for each in fields(BrokerConfig) if each.name != "topics"}
    return own | {each.name: str(each.type) for each in fields(TopicsConfig)}


def _with(config: BrokerConfig, settings: Mapping[str, Any]) -> BrokerConfig:
    of_topics = {each.name for each in fields(TopicsConfig)}
    topics = {name: value for name, value in settings.items() if name in of_topics}
    own = {name: value for name, value in settings.items() if name not in of_topics}
    return replace(config, **own, topics=replace(config.topics, **topics))


def _settings_of_file(path: Path) -> dict[str, Any]:
    """The settings of a file, each of the type that it must have."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    kinds = kinds_of_settings()
    settings: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in kinds:
            known = ", ".join(sorted(each.replace("_", "-") for each in kinds))
            raise ConfigError(f"{path}: unknown setting {key!r}: known are {known}")
        kind = kinds[name].removesuffix(" | None")
        expected: type = {"bool": bool, "int": int, "float": float}.get(kind, str)
        if expected is float and type(value) is int:
            value = float(value)
        if type(value) is not expected:
            raise ConfigError(f"{path}: {key} must be of type {expected.__name__}, got {value!r}")
        settings[name] = Path(str(value)) if kind == "Path" else value
    return settings
