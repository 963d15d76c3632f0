"""Who may call the metadata service."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from metastore.clock import Clock
from metastore.server.errors import unauthenticated
from metastore.tokens import NotAuthenticated, TokenFile


class Authenticator:
    """Lets everybody in: a service without tokens."""

    def check(self, metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
        """The principal of a call with these headers; refuses the call if it has none."""
        return None


class TokenAuthenticator(Authenticator):
    """Lets in who has a token."""

    def __init__(self, path: Path, clock: Clock, report: Callable[[str, BaseException], None]) -> None:
        self._tokens = TokenFile(path, clock, lambda error: report("tokens", error))

    def check(self, metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
        try:
            return self._tokens.principal(metadata)
        except NotAuthenticated as error:
            raise unauthenticated(str(error)) from None
