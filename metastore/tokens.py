"""Tokens and TLS of services: who bears which token, and credentials from files."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import grpc

from metastore.clock import Clock

RECHECK_S = 1.0
"""How long a change of the tokens' file may go unnoticed."""
TOKEN_BYTES_MAX = 4096

_SCHEME = "bearer "


class SecurityError(Exception):
    """A file of tokens, keys or certificates that cannot be used."""


class NotAuthenticated(Exception):
    """A call that bears no token, or none that is known; the text is for the caller."""


class TokenFile:
    """A file with a line `PRINCIPAL TOKEN` each, read again when it changes. Any thread may ask."""

    def __init__(self, path: Path, clock: Clock, report: Callable[[SecurityError], None]) -> None:
        self._path = path
        self._report = report
        self._clock = clock
        self._lock = threading.Lock()
        self._checked_s = clock.monotonic_s()
        self._stamp = self._read_stamp()
        self._principals = read_tokens(path)

    def principal(self, metadata: Iterable[tuple[str, str | bytes]]) -> str:
        """Whose call has these headers; NotAuthenticated if nobody's."""
        for name, value in metadata:
            if name == "authorization":
                text = value if isinstance(value, str) else value.decode("latin-1")
                if not text.lower().startswith(_SCHEME):
                    raise NotAuthenticated("the authorization header must read: Bearer TOKEN")
                return self._principal_of(text[len(_SCHEME) :].strip().encode())
        raise NotAuthenticated("the authorization header is missing: Bearer TOKEN is expected")

    def _principal_of(self, token: bytes) -> str:
        found = None
        for known, principal in self._tokens().items():
            if hmac.compare_digest(known, token):
                found = principal
        if found is None:
            raise NotAuthenticated("the token is not valid")
        return found

    def _tokens(self) -> dict[bytes, str]:
        now_s = self._clock.monotonic_s()
        with self._lock:
            if now_s - self._checked_s >= RECHECK_S:
                self._checked_s = now_s
                self._read_again()
            return self._principals

    def _read_again(self) -> None:
        """A file that has become unreadable is reported, and what it said before stays valid."""
        try:
            stamp = self._read_stamp()
            if stamp != self._stamp:
                self._stamp = stamp
                self._principals = read_tokens(self._path)
        except SecurityError as error:
            self._report(error)

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
        raise SecurityError(f"{path} has no tokens: nobody could use the service")
    return tokens


def server_credentials(certificate: Path, key: Path, client_authorities: Path | None) -> grpc.ServerCredentials:
    """TLS, and with `client_authorities` mutual TLS: clients must show a certificate that one of these signed."""
    try:
        pair = (key.read_bytes(), certificate.read_bytes())
        roots = client_authorities.read_bytes() if client_authorities is not None else None
    except OSError as error:
        raise SecurityError(f"{error.filename} cannot be read: {error.strerror}") from error
    return grpc.ssl_server_credentials([pair], root_certificates=roots, require_client_auth=roots is not None)
