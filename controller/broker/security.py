"""Who may call: bearer tokens from a file, and TLS credentials from files; such files as the metadata service has."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable
from pathlib import Path

import grpc

from controller.errors import Unauthenticated
from metastore.clock import Clock

RECHECK_S = 1.0
"""How long a change of the tokens' file may go unnoticed."""
TOKEN_BYTES_MAX = 4096

_SCHEME = "bearer "

logger = logging.getLogger("tidemark.broker")


class SecurityError(Exception):
    """A file of tokens, keys or certificates that cannot be used."""


class Authenticator:
    """Lets everybody in: a broker without tokens."""

    def principal(self, metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
        """Whose call has these headers; None where there are no principals. Refuses the call if it has none."""
        return None


class TokenAuthenticator(Authenticator):
    """Lets in who has a token. The file has a line `PRINCIPAL TOKEN` each, and is read again when it changes."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._checked_s = clock.monotonic_s()
        self._stamp = self._read_stamp()
        self._principals = read_tokens(path)

    def principal(self, metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
        self._read_again()
        for name, value in metadata:
            if name == "authorization":
                text = value if isinstance(value, str) else value.decode("latin-1")
                if not text.lower().startswith(_SCHEME):
                    raise Unauthenticated("the authorization header must read: Bearer TOKEN")
                return self._principal_of(text[len(_SCHEME) :].strip().encode())
        raise Unauthenticated("the authorization header is missing: Bearer TOKEN is expected")

    def _principal_of(self, token: bytes) -> str:
        found = None
        for known, principal in self._principals.items():
            if hmac.compare_digest(known, token):
                found = principal
        if found is None:
            raise Unauthenticated("the token is not valid")
        return found

    def _read_again(self) -> None:
        """A file that has become unreadable is reported, and what it said before stays valid."""
        now_s = self._clock.monotonic_s()
        if now_s - self._checked_s < RECHECK_S:
            return
        self._checked_s = now_s
        try:
            stamp = self._read_stamp()
            if stamp != self._stamp:
                self._stamp = stamp
                self._principals = read_tokens(self._path)
        except SecurityError as error:
            logger.warning("%s; the tokens known before stay valid", error)

    def _read_stamp(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise SecurityError(f"the tokens' file {self._path} cannot be read: {error.strerror}") from error
        return status.st_mtime_ns, status.st_ino, status.st_size


def read_tokens(path: Path) -> dict[bytes, str]:
    """Token -> principal."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SecurityError(f"the tokens' file {path} cannot be read: {error}") from error
    tokens: dict[bytes, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or len(words[1]) > TOKEN_BYTES_MAX:
            raise SecurityError(f"{path}, line {number}: PRINCIPAL TOKEN is expected")
        if words[1].encode() in tokens:
            raise SecurityError(f"{path}, line {number}: the token of {words[0]} is in the file twice")
        tokens[words[1].encode()] = words[0]
    if not tokens:
        raise SecurityError(f"{path} has no tokens: nobody could use the broker")
    return tokens


def server_credentials(certificate: Path, key: Path, client_authorities: Path | None) -> grpc.ServerCredentials:
    """TLS, and with `client_authorities` mutual TLS: clients must show a certificate that one of these signed."""
    try:
        pair = (key.read_bytes(), certificate.read_bytes())
        roots = client_authorities.read_bytes() if client_authorities is not None else None
    except OSError as error:
        raise SecurityError(f"{error.filename} cannot be read: {error.strerror}") from error
    return grpc.ssl_server_credentials([pair], root_certificates=roots, require_client_auth=roots is not None)
