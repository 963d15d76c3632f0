"""What a connection proves and demands: TLS, a client certificate, a bearer token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from metastore.clock import Clock

Headers = tuple[tuple[str, str], ...]
Unusable = Callable[[str], Exception]
"""Makes the error of a file that cannot be used, or of a token that is none."""

_FILES = ("ca_file", "cert_file", "key_file", "token_file")
SECURITY_OPTIONS = ("tls", *_FILES)
"""As URLs name them."""
TOKEN_RECHECK_S = 1.0
"""How long a change of the token's file may go unnoticed."""


@dataclass(frozen=True, slots=True)
class Security:
    """How to reach servers, and what proves who is there. Naming any of the files for TLS switches it on."""

    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    """The token itself, for those who have no file."""

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("a client certificate takes two files: give both cert_file and key_file")
        if self.token is not None and self.token_file is not None:
            raise ValueError("a token is given as such or in a file: token and token_file exclude each other")

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Security:
        """What the options of a URL say, other ones aside; ValueError names what they cannot say."""
        tls = options.get("tls", "false")
        if tls not in ("false", "true"):
            raise ValueError(f"tls is {tls!r}: true or false")
        files = {name: Path(options[name]) for name in _FILES if name in options}
        return cls(
            tls == "true", files.get("ca_file"), files.get("cert_file"), files.get("key_file"), files.get("token_file")
        )

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted, also where a server's address does not say so."""
        return self.tls or self.ca_file is not None or self.cert_file is not None

    def channel_credentials(self, unusable: Unusable) -> grpc.ChannelCredentials:
        """The credentials of an encrypted channel; without a CA file, the CAs that grpcio trusts."""
        return grpc.ssl_channel_credentials(
            root_certificates=_optional_content(self.ca_file, "CA certificates", unusable),
            private_key=_optional_content(self.key_file, "private key", unusable),
            certificate_chain=_optional_content(self.cert_file, "certificate", unusable),
        )


class TokenSource:
    """The headers that a call proves itself with. A token's file is read again, so it can be replaced at any time."""

    def __init__(self, security: Security, clock: Clock, unusable: Unusable) -> None:
        self._path = security.token_file
        self._clock = clock
        self._unusable = unusable
        self._read_s = clock.monotonic_s()
        self._headers: Headers = ()
        if security.token is not None:
            self._headers = self._checked(security.token, "the token")
        if self._path is not None:
            self._headers = self._read(self._path)

    def headers(self) -> Headers:
        """The headers of one call."""
        if self._path is not None and self._clock.monotonic_s() - self._read_s >= TOKEN_RECHECK_S:
            self._headers = self._read(self._path)
            self._read_s = self._clock.monotonic_s()
        return self._headers

    def _read(self, path: Path) -> Headers:
        text = _content(path, "token", self._unusable).decode("ascii", "replace")
        return self._checked(text.strip(), f"the content of {path}")

    def _checked(self, token: str, what: str) -> Headers:
        if not token or not all("!" <= character <= "~" for character in token):
            raise self._unusable(f"{what} is no bearer token: one line of visible ASCII, without spaces")
        return (("authorization", f"Bearer {token}"),)


def _optional_content(path: Path | None, purpose: str, unusable: Unusable) -> bytes | None:
    return None if path is None else _content(path, purpose, unusable)


def _content(path: Path, purpose: str, unusable: Unusable) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise unusable(
            f"cannot read the {purpose} file {path}: {error.strerror}: check the path and its permissions"
        ) from error
