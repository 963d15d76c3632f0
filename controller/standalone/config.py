"""What a standalone may be told: where the metadata service is, and all that its broker may be told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from controller.broker import BrokerConfig, ConfigError
from controller.serving.beside import admin_config
from metastore.addresses import EVERY_ADDRESS, PORT_MAX, is_loopback, join_address, split_address

DEFAULT_METADATA = "127.0.0.1:6648"
DEFAULT_METADATA_METRICS_PORT = 8080
DEFAULT_ADMIN = "127.0.0.1:8088"
ANY_PORT = "127.0.0.1:0"
NAME = "standalone"
"""The broker's, always the same one: so it takes over at once what it had before a crash, whatever its port is."""


def default_broker() -> BrokerConfig:
    """The broker, where nothing else is said."""
    return BrokerConfig(name=NAME, admin=DEFAULT_ADMIN)


@dataclass(frozen=True, slots=True)
class StandaloneConfig:
    """The settings, with their defaults. Ports may be 0: then any that is free, and another one at each start."""

    data_dir: Path = Path("./data")
    """Where everything is kept: metadata/ and segments/."""
    metadata: str = DEFAULT_METADATA
    """HOST:PORT of the metadata service."""
    metadata_metrics_port: int = DEFAULT_METADATA_METRICS_PORT
    """Where its /metrics is, on the same host."""
    shards: int = 1
    """Of the metadata; does not change over existing data."""
    broker: BrokerConfig = field(default_factory=default_broker)
    """All about broker and admin service. Its store and its data directory are settled here."""

    @classmethod
    def on_free_ports(cls, data_dir: Path, **settings: Any) -> StandaloneConfig:
        """For programs that need no address to be known beforehand, with settings of the broker."""
        defaults = {"name": NAME, "listen": ANY_PORT, "admin": ANY_PORT, "metrics_port": None}
        return cls(data_dir, ANY_PORT, 0, broker=BrokerConfig(**{**defaults, **settings}))

    def check(self) -> StandaloneConfig:
        """This configuration, if it can be."""
        if not 0 <= self.metadata_metrics_port <= PORT_MAX:
            raise ConfigError(
                f"metadata-metrics-port must be between 0 and {PORT_MAX}, got {self.metadata_metrics_port}"
            )
        if self.shards < 1:
            raise ConfigError(f"shards must be at least 1, got {self.shards}")
        host, _ = self._metadata_parts()
        if not is_loopback(host) and not self.broker.insecure:
            raise ConfigError(
                f"metadata {self.metadata} is open to the network, and served without TLS and without tokens: "
                "keep it on this machine, or say --insecure if the network is trusted, "
                "or run `tidemark metastore` and `tidemark broker` instead"
            )
        self.broker.check(has_store=True)
        admin_config(self.broker)
        return self

    @property
    def metadata_dir(self) -> Path:
        """What the metadata service keeps."""
        return self.data_dir / "metadata"

    @property
    def metadata_metrics(self) -> str:
        """HOST:PORT of the metadata service's metrics."""
        return join_address(self._metadata_parts()[0], self.metadata_metrics_port)

    def broker_on(self, store_url: str) -> BrokerConfig:
        """The broker's configuration, on the metadata service as it is."""
        return replace(self.broker, store=store_url, data_dir=self.data_dir / "segments")

    def _metadata_parts(self) -> tuple[str, int]:
        try:
            return split_address(self.metadata)
        except ValueError as error:
            raise ConfigError(f"metadata: {error}") from error


def url_of(address: str) -> str:
    """How this machine reaches a metadata service that listens there."""
    host, port = split_address(address)
    if host in EVERY_ADDRESS:
        host = "127.0.0.1" if host == EVERY_ADDRESS[0] else "::1"
    return f"oxia://{join_address(host, port)}"
