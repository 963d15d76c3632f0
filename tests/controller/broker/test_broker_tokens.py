"""Tokens in a file: who they let in, how the file may be written, and how it changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.broker.security import Authenticator, TokenAuthenticator
from controller.errors import Unauthenticated
from metastore.clock import ManualClock
from metastore.tokens import RECHECK_S

RECHECK_MS = int(RECHECK_S * 1000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text("# who may call\nalice secret-a\n\nbob secret-b\n")
    return path


def bearer(token: str) -> list[tuple[str, str | bytes]]:
    return [("user-agent", "x"), ("authorization", f"Bearer {token}")]


def test_without_tokens_everybody_is_let_in_and_nobody_known() -> None:
    assert Authenticator().principal(()) is None


def test_a_token_says_who_calls(file: Path) -> None:
    authenticator = TokenAuthenticator(file, ManualClock())
    assert authenticator.principal(bearer("secret-a")) == "alice"
    assert authenticator.principal([("authorization", b"BEARER  secret-b ")]) == "bob"


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ([], "missing"),
        ([("authorization", "Basic abc")], "must read: Bearer TOKEN"),
        (bearer("secret-c"), "not valid"),
        (bearer(""), "not valid"),
    ],
)
def test_nobody_else_is_let_in(metadata: list[tuple[str, str | bytes]], text: str, file: Path) -> None:
    with pytest.raises(Unauthenticated, match=text):
        TokenAuthenticator(file, ManualClock()).principal(metadata)


def test_a_changed_file_counts_after_a_moment(file: Path) -> None:
    clock = ManualClock()
    authenticator = TokenAuthenticator(file, clock)
    file.write_text("carol secret-c\n")
    clock.advance_ms(RECHECK_MS - 1)
    assert authenticator.principal(bearer("secret-a")) == "alice"
    clock.advance_ms(1)
    assert authenticator.principal(bearer("secret-c")) == "carol"
    with pytest.raises(Unauthenticated):
        authenticator.principal(bearer("secret-a"))


def test_a_file_that_has_become_bad_changes_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    authenticator = TokenAuthenticator(file, clock)
    file.write_text("one two three\n")
    clock.advance_ms(RECHECK_MS)
    with caplog.at_level("WARNING", "tidemark.broker"):
        assert authenticator.principal(bearer("secret-a")) == "alice"
    assert "PRINCIPAL TOKEN is expected" in caplog.text
    os.unlink(file)
    clock.advance_ms(RECHECK_MS)
    assert authenticator.principal(bearer("secret-b")) == "bob"
