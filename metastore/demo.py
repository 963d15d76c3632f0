"""The main job, shown in a minute: serve, write, index, number, follow, crash, and lose nothing.

Run it with `make demo`. It starts the service in a folder of its own, talks to it over the wire as any client would,
kills it with SIGKILL in the middle of its writes, starts it again, and counts.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from metastore.client.client import Client
from metastore.client.errors import ClientError, UnexpectedVersion
from metastore.client.values import Comparison

START_WITHIN_S = 30.0
WRITERS = 4
WRITES_BEFORE_THE_CRASH = 2_000


def main() -> int:
    """Tells the story; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="tidemark-demo-") as folder:
        port, metrics_port = _free_port(), _free_port()
        server = _Service(Path(folder), port, metrics_port)
        try:
            server.start()
            with Client(f"127.0.0.1:{port}") as client:
                _show_records(client)
                _show_sequences_and_indexes(client)
                _show_sessions_and_notifications(client)
            return _show_a_crash(server, port)
        finally:
            server.kill()


def _say(text: str) -> None:
    print(text, flush=True)


def _show_records(client: Client) -> None:
    _say("\n1. Records, with versions")
    first = client.put("/config/colour", b"blue")
    second = client.put("/config/colour", b"green", expected_version=first.version.version_id)
    _say(f"   put /config/colour twice: version {first.version.version_id}, then {second.version.version_id}")
    try:
        client.put("/config/colour", b"red", expected_version=first.version.version_id)
    except UnexpectedVersion as error:
        _say(f"   a third put that expects the first version is refused: {error}")
    record = client.get("/config/colour")
    _say(f"   get /config/colour: {record.value!r}, overwritten {record.version.modifications_count} time")
    for key in ("/config", "/config/size", "/config/size/default"):
        client.put(key, b"x")
    _say(f"   the children of /config, and nothing below them: {list(client.list('/config/', '/config//'))}")


def _show_sequences_and_indexes(client: Client) -> None:
    _say("\n2. Keys numbered by the store, and a secondary index")
    for name in (b"sweep", b"wash", b"cook"):
        job = client.put(
            "/jobs/job",
            name,
            partition_key="jobs",
            sequence_deltas=(1,),
            secondary_indexes=(("by-name", name.decode()),),
        )
        _say(f"   put {name!r} as {job.key}")
    found = client.get("s", index="by-name", comparison=Comparison.CEILING)
    _say(f"   the first name from 's' on, by index: {found.secondary_key!r} -> {found.key}")


def _show_sessions_and_notifications(client: Client) -> None:
    _say("\n3. A session, and somebody who follows the changes")
    with client.notifications() as changes:
        with client.session(5_000, identity="demo") as session:
            client.put("/workers/7", b"here", session=session)
            _say(f"   /workers/7 is there while its session is: {client.get('/workers/7').version.session_id}")
        _say(f"   the session is closed, and /workers is empty: {list(client.list('/workers/', '/workers//'))}")
        seen = []
        for batch in changes:
            seen += [f"{each.kind.value} {each.key}" for each in batch.notifications]
            if len(seen) >= 2:
                break
    _say(f"   the follower saw: {', '.join(seen)}")


def _show_a_crash(server: _Service, port: int) -> int:
    _say(f"\n4. {WRITERS} writers, and kill -9 in the middle")
    written = _write_until_killed(server, port)
    _say(f"   {len(written)} writes were acknowledged before the server was gone")
    began_s = time.monotonic()
    server.start()
    _say(f"   started again in {time.monotonic() - began_s:.1f} s, on what the log holds")
    with Client(f"127.0.0.1:{port}") as client:
        stored = {record.key: record.value for record in client.range_scan("/crash/", "/crash//")}
    lost = [key for key, value in written.items() if stored.get(key) != value]
    _say(f"   acknowledged and lost: {len(lost)}; stored though its answer never came: {len(stored) - len(written)}")
    _say("\nNothing that was acknowledged is gone." if not lost else f"\nLOST: {lost[:10]}")
    return 1 if lost else 0


def _write_until_killed(server: _Service, port: int) -> dict[str, bytes]:
    """What was acknowledged until the server was killed."""
    written: dict[str, bytes] = {}
    enough = threading.Event()

    def write(writer: int) -> None:
        with contextlib.suppress(ClientError), Client(f"127.0.0.1:{port}", request_timeout_s=2.0) as client:
            number = 0
            while True:
                key, value = f"/crash/{writer}-{number:06d}", b"%d" % number
                client.put(key, value)
                written[key] = value
                number += 1
                if len(written) >= WRITES_BEFORE_THE_CRASH:
                    enough.set()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    enough.wait(60.0)
    server.kill()
    for thread in threads:
        thread.join()
    return written


class _Service:
    """`tidemark metastore` in a process of its own."""

    def __init__(self, folder: Path, port: int, metrics_port: int) -> None:
        self._command = [sys.executable, "-m", "metastore.commandline", "metastore"]
        self._command += ["--public-addr", f"127.0.0.1:{port}", "--metrics-addr", f"127.0.0.1:{metrics_port}"]
        self._command += ["--data-dir", str(folder / "data")]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts it and waits for its line that it is ready."""
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        for line in self._lines():
            _say(f"   {line.strip()}")
            if "ready on" in line:
                return
        raise RuntimeError("the service did not start")

    def _lines(self) -> Iterator[str]:
        assert self._process is not None
        assert self._process.stderr is not None
        watchdog = threading.Timer(START_WITHIN_S, self.kill)
        watchdog.start()
        try:
            yield from self._process.stderr
        finally:
            watchdog.cancel()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
