"""Who is who by TLS: certificates of servers and clients, and a server that shows one."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from support.ports import LOOPBACK
from support.server import EAGER_CHANNEL, ServerProcess


@dataclass(frozen=True)
class Identity:
    """A certificate that signed itself, and its key."""

    certificate: Path
    key: Path

    @classmethod
    def make(cls, directory: Path, name: str) -> Identity:
        made = cls(directory / f"{name}.pem", directory / f"{name}.key")
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
                *("-keyout", str(made.key), "-out", str(made.certificate), "-days", "2"),
                *("-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{LOOPBACK},DNS:localhost"),
            ],
            check=True,
            capture_output=True,
        )
        return made

    @property
    def settings(self) -> dict[str, Any]:
        """What the configuration of a service that has it says."""
        return {"tls_cert_file": self.certificate, "tls_key_file": self.key}

    @property
    def server_arguments(self) -> tuple[str, ...]:
        """The same on the command line."""
        return "--tls-cert-file", str(self.certificate), "--tls-key-file", str(self.key)

    def credentials(self, client: Identity | None = None) -> grpc.ChannelCredentials:
        """What a client needs that trusts this server, and may show who it is."""
        own = (None, None) if client is None else (client.key.read_bytes(), client.certificate.read_bytes())
        return grpc.ssl_channel_credentials(self.certificate.read_bytes(), *own)


class TlsServer(ServerProcess):
    """A server that is asked by TLS whether it serves."""

    def __init__(self, identity: Identity, client: Identity | None = None, *arguments: str) -> None:
        super().__init__(extra_args=(*identity.server_arguments, *arguments))
        self.credentials = identity.credentials(client)

    def _connect(self) -> grpc.Channel:
        return grpc.secure_channel(self.address, self.credentials, options=EAGER_CHANNEL)
