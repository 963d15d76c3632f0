"""Bearer tokens from a file that may change, or break, while the service runs."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from metastore.clock import ManualClock
from metastore.server.errors import RpcError
from metastore.server.security import Authenticator, TokenAuthenticator
from metastore.tokens import RECHECK_S, TOKEN_BYTES_MAX, SecurityError, read_tokens, server_credentials

RECHECK_MS = int(RECHECK_S * 1000)


class Tokens:
    """A file of tokens and who reads it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.path.write_text(text)
        self.clock = ManualClock()
        self.reports: list[tuple[str, BaseException]] = []
        self.authenticator = TokenAuthenticator(path, self.clock, lambda *report: self.reports.append(report))

    def replace(self, text: str) -> None:
        """A new file in place of the old: also one of the same length, written within a tick of the clock, is seen."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.path)

    def principal(self, header: str | bytes) -> str | None:
        return self.authenticator.check([("user-agent", "test"), ("authorization", header)])

    def refusal(self, *headers: tuple[str, str]) -> str:
        with pytest.raises(RpcError) as refused:
            self.authenticator.check(headers)
        assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED
        return refused.value.message


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens", "# who may call\n\nbroker one-1\nadmin  two-2\n")


def test_each_token_has_its_principal(tokens: Tokens) -> None:
    assert tokens.principal("Bearer one-1") == "broker"
    assert tokens.principal("bearer  two-2 ") == "admin"
    assert tokens.principal(b"BEARER one-1") == "broker"


def test_without_a_valid_token_nobody_gets_in(tokens: Tokens) -> None:
    assert "missing" in tokens.refusal()
    assert "missing" in tokens.refusal(("x-authorization", "Bearer one-1"))
    assert "Bearer TOKEN" in tokens.refusal(("authorization", "Basic one-1"))
    assert "Bearer TOKEN" in tokens.refusal(("authorization", "one-1"))
    for token in ("", "one", "one-12", "broker", "#", "One-1", "ö"):
        assert tokens.refusal(("authorization", f"Bearer {token}")) == "the token is not valid"


def test_the_first_authorization_counts(tokens: Tokens) -> None:
    assert "not valid" in tokens.refusal(("authorization", "Bearer no"), ("authorization", "Bearer one-1"))


def test_a_changed_file_is_read_again(tokens: Tokens) -> None:
    tokens.replace("broker one-9\nadmin  two-2\n")
    tokens.clock.advance_ms(RECHECK_MS - 1)
    assert tokens.principal("Bearer one-1") == "broker"
    tokens.clock.advance_ms(1)
    assert tokens.principal("Bearer one-9") == "broker"
    assert tokens.refusal(("authorization", "Bearer one-1"))
    assert tokens.reports == []


@pytest.mark.parametrize("text", ["", "# none\n", "broker\n", "broker one-1 more\n", "a same\nb same\n"])
def test_a_broken_file_keeps_the_old_tokens(tokens: Tokens, text: str) -> None:
    tokens.replace(text)
    for _ in range(3):
        tokens.clock.advance_ms(RECHECK_MS)
        assert tokens.principal("Bearer one-1") == "broker"
    assert [where for where, _ in tokens.reports] == ["tokens"]
    tokens.replace("broker three-3\n")
    tokens.clock.advance_ms(RECHECK_MS)
    assert tokens.principal("Bearer three-3") == "broker"
    assert len(tokens.reports) == 1


def test_a_missing_file_keeps_the_old_tokens(tokens: Tokens) -> None:
    tokens.path.unlink()
    tokens.clock.advance_ms(RECHECK_MS)
    assert tokens.principal("Bearer one-1") == "broker"
    ((_, error),) = tokens.reports
    assert str(tokens.path) in str(error)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "no tokens"),
        (b"a one\nb\n", "line 2"),
        (b"a one\n\nb two three\n", "line 3"),
        (b"a one\nb one\n", "twice"),
        (b"a " + b"x" * (TOKEN_BYTES_MAX + 1), "line 1"),
        (b"a \xff", "cannot be read"),
    ],
)
def test_a_service_does_not_start_with_a_broken_file(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(content)
    with pytest.raises(SecurityError, match=word):
        read_tokens(path)


def test_the_greatest_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens", f"a {'x' * TOKEN_BYTES_MAX}")
    assert tokens.principal(f"Bearer {'x' * TOKEN_BYTES_MAX}") == "a"


def test_a_service_does_not_start_without_its_files(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(SecurityError, match="missing"):
        TokenAuthenticator(missing, ManualClock(), lambda *_: None)
    with pytest.raises(SecurityError, match="missing"):
        server_credentials(missing, missing, None)


def test_a_service_without_tokens_lets_everybody_in() -> None:
    assert Authenticator().check([]) is None
