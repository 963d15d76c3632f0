"""What an admin service is told: where it listens, and how it is protected."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from metastore.addresses import is_loopback, split_address


class AdminConfigError(Exception):
    """A setting that cannot be; the text names it and what is allowed."""


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """The settings, with their defaults."""

    listen: str
    """HOST:PORT; with port 0 any that is free."""
    tokens_file: Path | None = None
    """Only bearers of a token are let in: the same ones as at the broker."""
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    tls_client_ca_file: Path | None = None
    """Clients must show a certificate that one of these signed."""
    insecure: bool = False

    def check(self) -> AdminConfig:
        """This configuration, if it can be."""
        try:
            host, _ = split_address(self.listen)
        except ValueError as error:
            raise AdminConfigError(f"admin: {error}") from error
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise AdminConfigError("tls-cert-file and tls-key-file belong together: give both or none")
        protected = self.tls_cert_file is not None or self.tokens_file is not None
        if not is_loopback(host) and not protected and not self.insecure:
            raise AdminConfigError(
                f"admin {self.listen} is open to the network, without TLS and without tokens: "
                "give --tls-cert-file and --tls-key-file, or --tokens-file, or say --insecure if the network is trusted"
            )
        return self
