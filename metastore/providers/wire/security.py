"""What a connection proves and demands: TLS, a client certificate, a bearer token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from metastore.clock import Clock
from metastore.interface.errors import InvalidUrl

Metadata = tuple[tuple[str, str], ...]

TOKEN_RECHECK_S = 1.0
"""How long a change of the token's file may go unnoticed."""


@dataclass(frozen=True, slots=True)
class Security:
    """How to reach the servers. Naming any of the files for TLS switches it on."""

    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise InvalidUrl("a client certificate takes two files: give both cert_file and key_file")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted, also where a server's address does not say so."""
        return self.tls or self.ca_file is not None or self.cert_file is not None

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """The credentials of an encrypted channel; without a CA file, the CAs that grpcio trusts."""
        return grpc.ssl_channel_credentials(
            root_certificates=_optional_file(self.ca_file, "CA certificates"),
            private_key=_optional_file(self.key_file, "private key"),
            certificate_chain=_optional_file(self.cert_file, "certificate"),
        )


class TokenSource:
    """The headers that a call proves itself with. A token's file is read again, so it can be replaced at any time."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._read_s = clock.monotonic_s()
        self._headers: Metadata = () if path is None else _token_headers(path)

    def headers(self) -> Metadata:
        """The headers of one call."""
        if self._path is not None and self._clock.monotonic_s() - self._read_s >= TOKEN_RECHECK_S:
            self._headers = _token_headers(self._path)
            self._read_s = self._clock.monotonic_s()
        return self._headers


def _token_headers(path: Path) -> Metadata:
    token = _file_content(path, "token").decode("ascii", "replace").strip()
    if not token or not all("!" <= character <= "~" for character in token):
        raise InvalidUrl(f"the content of {path} is no bearer token: one line of visible ASCII, without spaces")
    return (("authorization", f"Bearer {token}"),)


def _optional_file(path: Path | None, purpose: str) -> bytes | None:
    return None if path is None else _file_content(path, purpose)


def _file_content(path: Path, purpose: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidUrl(
            f"cannot read the {purpose} file {path}: {error.strerror}: check the path and its permissions"
        ) from error
