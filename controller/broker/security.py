"""Who may call a broker."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from controller.errors import Unauthenticated
from metastore.clock import Clock
from metastore.tokens import NotAuthenticated, SecurityError, TokenFile

logger = logging.getLogger("tidemark.broker")


class Authenticator:
    """Lets everybody in: a broker without tokens."""

    def principal(self, metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
        """Whose call has these headers; None where there are no principals. Refuses the call if it has none."""
        return None


class TokenAuthenticator(Authenticator):
    """Lets in who has a token."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._tokens = TokenFile(path, clock, _report)

    def principal(self, metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
        try:
            return self._tokens.principal(metadata)
        except NotAuthenticated as error:
            raise Unauthenticated(str(error)) from None


def _report(error: SecurityError) -> None:
    logger.warning("%s; the tokens known before stay valid", error)
