"""`tidemark client` where nobody serves: what is certain is said at once, all else after the time that was given."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from metastore.client.parser import register
from metastore.commandline import EXIT_FAILURE, main
from support.ports import LOOPBACK, free_port
from support.server import ServerProcess

FOREVER = "24h"
"""Whoever waited for the end of it would be stopped as a test that hangs."""


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line in which a call says why it failed."""
    assert main(["client", *arguments], [register]) == EXIT_FAILURE
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    return output.err


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of somebody who listens and never answers."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        yield f"{LOOPBACK}:{listener.getsockname()[1]}"


@pytest.mark.parametrize("operation", [["list"], ["session"], ["lock", "/l"]], ids=lambda words: words[0])
def test_a_refused_connection_is_told_at_once(operation: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    first, second = f"{LOOPBACK}:{free_port()}", f"localhost:{free_port()}"
    assert f"nobody listens at {first} " in complaint(capsys, "-a", first, "--timeout", FOREVER, *operation)
    told = complaint(capsys, "--store", f"oxia://{first},{second}?request_timeout={FOREVER}", *operation)
    assert f"nobody listens at {first} " in told
    assert f"nobody listens at {second} " in told


def test_one_server_that_listens_is_enough() -> None:
    with ServerProcess() as server:
        url = f"oxia://{LOOPBACK}:{free_port()},{server.address}"
        assert main(["client", "--store", url, "list"], [register]) == 0


def test_who_does_not_answer_is_waited_for(silent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "within 0.3 s" in complaint(capsys, "-a", silent, "--timeout", "300ms", "list")
    url = f"oxia://{LOOPBACK}:{free_port()},{silent}?request_timeout=300ms"
    assert "within 0.3 s" in complaint(capsys, "--store", url, "list")


@pytest.mark.parametrize(
    ("error", "timeout", "told"),
    [
        (socket.gaierror(socket.EAI_NONAME, "no such name"), FOREVER, "nobody knows the host 'db.invalid'"),
        (socket.gaierror(socket.EAI_AGAIN, "try again"), "300ms", "within 0.3 s"),
        (UnicodeError("no name at all"), "300ms", "within 0.3 s"),
    ],
    ids=["unknown", "undecided", "malformed"],
)
def test_a_host_is_unknown_only_if_that_is_certain(
    error: Exception, timeout: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def resolve(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert told in complaint(capsys, "-a", "db.invalid:1", "--timeout", timeout, "list")
