"""What a connection proves and demands: TLS, a client certificate, a bearer token."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import grpc

from metastore.client.errors import InvalidRequest

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Security:
    """How to reach the servers. Naming any of the files for TLS switches it on.

    A token file is read anew for every call, so a token can be replaced while a client runs.
    """

    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise InvalidRequest("a client certificate takes a certificate file and a key file: give both")
        if self.token is not None and self.token_file is not None:
            raise InvalidRequest("there are two tokens, one given and one in a file: give one of them")
        if self.token is not None:
            checked_token(self.token, "the token")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted, also where a server's address does not say so."""
        return self.tls or self.ca_file is not None or self.cert_file is not None

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """The credentials of an encrypted channel; without a CA file, the CAs that grpcio trusts."""
        return grpc.ssl_channel_credentials(
            root_certificates=optional_file(self.ca_file, "CA certificates"),
            private_key=optional_file(self.key_file, "private key"),
            certificate_chain=optional_file(self.cert_file, "certificate"),
        )

    def metadata(self) -> Metadata:
        """The headers of one call."""
        token = self.token
        if self.token_file is not None:
            content = file_content(self.token_file, "token")
            token = checked_token(
                content.decode("ascii", "replace").strip(), f"the content of {self.token_file}"
            )
        return () if token is None else (("authorization", f"Bearer {token}"),)


def checked_token(token: str, source: str) -> str:
    """The token, if a header can carry it; the message keeps it secret."""
    if not token or not all("!" <= character <= "~" for character in token):
        raise InvalidRequest(f"{source} is no bearer token: give one line of visible ASCII, without spaces")
    return token


def optional_file(path: Path | None, purpose: str) -> bytes | None:
    return None if path is None else file_content(path, purpose)


def file_content(path: Path, purpose: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequest(
            f"cannot read the {purpose} file {path}: {error.strerror}: check the path and its permissions"
        ) from error
