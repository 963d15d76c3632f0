"""`tidemark broker --admin`: the admin service beside a broker, from its beginning to its end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.broker import BrokerConfig
from controller.serving.beside import admin_config
from metastore.commandline import EXIT_FAILURE, EXIT_SUCCESS, EXIT_USAGE
from support.admin_stage import TOPICS, Admin
from support.ports import LOOPBACK, free_port

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = (
    "import sys; from metastore.commandline import main; from controller.serving.command import register; "
    "sys.exit(main(sys.argv[1:], [register]))"
)
READY = re.compile(r"ready on \S+: .*, admin service at http://(\S+)")
ENDS_WITHIN_S = 30.0


def command(*arguments: str) -> list[str]:
    places = ["--store", "memory://", "--log", "metastore", "--listen", f"{LOOPBACK}:{free_port()}"]
    return [sys.executable, "-c", PROGRAM, "broker", *places, "--metrics-port", str(free_port()), *arguments]


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, once it is ready, and where its admin service is."""
    with subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stderr is not None
            found = next((match for line in process.stderr if (match := READY.search(line))), None)
            assert found is not None, "it ended before it was ready"
            yield process, found[1]
        finally:
            process.kill()


def test_it_serves_as_long_as_the_broker() -> None:
    with started("--admin", f"{LOOPBACK}:0") as (process, address):
        admin = Admin(address)
        assert admin.put(f"{TOPICS}/orders").status == 204
        assert admin.get(f"{TOPICS}/orders/segmentCounts").json["activeSegments"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        rest = process.stderr.read()
        assert (process.wait(ENDS_WITHIN_S), "Traceback" in rest) == (EXIT_SUCCESS, False), rest
        with pytest.raises(ConnectionRefusedError):
            admin.get(TOPICS)


def test_whom_the_broker_lets_in_it_lets_in(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("peer secret\n")
    (tmp_path / "token").write_text("secret")
    tokens = ("--tokens-file", str(tmp_path / "tokens"), "--peer-token-file", str(tmp_path / "token"))
    with started("--admin", f"{LOOPBACK}:0", *tokens) as (_, address):
        assert Admin(address).get(TOPICS).status == 401
        assert Admin(address, {"authorization": "Bearer secret"}).get(TOPICS).json == []


@pytest.mark.parametrize(
    ("admin", "code", "complaint"),
    [("nowhere", EXIT_USAGE, "HOST:PORT"), ("0.0.0.0:0", EXIT_USAGE, "open to the network"), ("192.0.2.1:1", None, "")],
)
def test_an_address_that_cannot_be(admin: str, code: int | None, complaint: str) -> None:
    insecure = [] if code is not None else ["--insecure"]
    ended = subprocess.run(
        command("--admin", admin, *insecure),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=ENDS_WITHIN_S,
        check=False,
    )
    assert ended.returncode == (EXIT_FAILURE if code is None else code)
    assert (complaint or "cannot listen on 192.0.2.1:1 for admin requests") in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_broker_need_not_have_one() -> None:
    assert admin_config(BrokerConfig(store="memory://")) is None
