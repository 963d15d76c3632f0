"""`tidemark client` operations that last: what they print as it comes, and how they end when they are interrupted."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from command_helpers import WAIT_S, CommandLine, json_of, line_of, program

from metastore.client.following import Following
from metastore.commandline import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_SUCCESS, CommandError
from metastore.interface import BatchKind, BlockingStore, BlockingWatch, TokenExpired, WatchBatch
from support.server import ServerProcess

EXIT_TERMINATED = 128 + signal.SIGTERM


@pytest.fixture(autouse=True, scope="module")
def _interrupts_are_heard() -> Iterator[None]:
    """A shell that runs the tests in the background has them ignore SIGINT, and with them the programs they start."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(shards=3) as server:
        yield server


@pytest.fixture(scope="module")
def url(server: ServerProcess) -> str:
    return f"oxia://{server.address}"


@pytest.fixture
def store(url: str) -> Iterator[BlockingStore]:
    with BlockingStore.open(url) as store:
        yield store


@pytest.fixture
def embedded(tmp_path: Path) -> str:
    return f"lmdb://{tmp_path}/data?sync=false&shards=2"


def ending(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """Interrupts it; the exit code, and the rest of what it prints and complains of."""
    process.send_signal(number)
    printed, complaints = process.communicate(timeout=WAIT_S)
    return process.returncode, printed, complaints


def test_a_watch_prints_what_is_there_and_what_becomes_of_it(url: str, store: BlockingStore) -> None:
    store.put("/watched/a", b"1")
    with program("--store", url, "watch", "/watched/", "--previous") as process:
        lines = [line_of(process).split() for _ in range(4)]
        assert lines[0] == ["TYPE", "KEY", "VERSION_ID", "VALUE", "PREVIOUS_VALUE"]
        assert [line[0] for line in lines[1:]] == ["snapshot-begin", "present", "snapshot-end"]
        assert lines[2][1] == "/watched/a"
        store.put("/watched/a/deeper", b"")
        store.put("/watched/a", b"2")
        created = line_of(process).split()
        assert (created[0], created[1], *created[3:]) == ("modified", "/watched/a", "2", "1")
        store.delete("/watched/a")
        assert line_of(process).split() == ["deleted", "/watched/a", "-", "-", "2"]
        assert ending(process, signal.SIGINT) == (EXIT_INTERRUPTED, "", "")


def test_a_watch_goes_on_from_a_token(embedded: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = CommandLine(embedded, capsys)
    with program("--store", embedded, "--json", "watch", "/a/", "--previous") as process:
        begun, ended = json_of(process), json_of(process)
        assert (begun["type"], begun["token"], ended["type"]) == ("snapshot-begin", None, "snapshot-end")
        # The directory is this process's: it is closed before another may write.
        assert ending(process, signal.SIGTERM)[0] == EXIT_TERMINATED
    [first] = line.json("put", "/a/1", "one")
    line.run("put", "/b/1", "elsewhere")
    line.run("put", "/a/2", "two")
    line.run("delete", "/a/1")
    told = line.json("watch", "/a/", "--from-token", ended["token"], "--previous", "--count", "3")
    changes = [each for each in told if each["type"] != "progress"]
    assert sorted((each["type"], each["key"], each["value"], each["previous_value"]) for each in changes) == [
        ("created", "/a/1", "one", None),
        ("created", "/a/2", "two", None),
        ("deleted", "/a/1", None, "one"),
    ]
    assert first["version_id"] in [each["version_id"] for each in changes]
    assert "another watch" in line.run("watch", "/b/", "--from-token", ended["token"], code=2)


def test_a_watch_of_an_index_is_exact_if_asked(embedded: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = CommandLine(embedded, capsys)
    for number in (1, 2, 20, 200):
        line.run("put", f"/{number}", "", "--index", f"by={number}")

    def seen(*options: str) -> set[str]:
        with program("--store", embedded, "--json", "watch", "2", "--index", "by", *options) as process:
            rows = [json_of(process)]
            while rows[-1]["type"] != "snapshot-end":
                rows.append(json_of(process))
            assert ending(process, signal.SIGTERM) == (EXIT_TERMINATED, "", "")
        return {row["key"] for row in rows if row["type"] == "present"}

    assert seen() == {"/2", "/20", "/200"}
    assert seen("--exact") == {"/2"}


def test_a_watch_that_breaks_off_says_where_to_go_on() -> None:
    def breaking() -> Iterator[WatchBatch]:
        yield WatchBatch(BatchKind.PROGRESS, token="first")
        yield WatchBatch(BatchKind.PROGRESS, token="second")
        raise TokenExpired("too late")

    with Following(cast(BlockingWatch, breaking())) as following:
        batches = following.batches()
        assert [next(batches).token, next(batches).token] == ["first", "second"]
        with pytest.raises(CommandError, match=r"too late .*--from-token second"):
            next(batches)


def test_notifications_are_printed_as_they_come(url: str, store: BlockingStore) -> None:
    with program("--store", url, "notifications") as process:
        assert line_of(process).split() == ["SHARD", "OFFSET", "TIMESTAMP", "TYPE", "VERSION_ID", "KEY"]
        for name in "ab":
            version = store.put(f"/notified/{name}", b"").version
            cells = line_of(process).split()
            assert cells[3:] == ["created", str(version.version_id), f"/notified/{name}"]
        assert ending(process, signal.SIGINT) == (EXIT_INTERRUPTED, "", "")
    with program("--store", url, "notifications", "--json", "--count", "1") as process:
        first = None
        while first is None:  # they begin at an instant that nothing is printed at in this form
            store.put("/notified/c", b"")
            first = process.poll()
        told = json_of(process)
        assert (told["type"] in ("created", "modified"), told["key"]) == (True, "/notified/c")
        assert first == EXIT_SUCCESS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_is_closed(url: str, store: BlockingStore, number: signal.Signals) -> None:
    key = f"/session-{number}"
    with program("--store", url, "session", "--json", "--put", key, "v") as process:
        assert [json_of(process)["event"] for _ in range(2)] == ["opened", "put"]
        record = store.get(key)
        assert record is not None
        assert record.version.is_ephemeral
        code, printed, complaints = ending(process, number)
        assert (code, complaints) == (EXIT_SUCCESS, "")
        assert '"closed"' in printed
    assert store.get(key) is None


def test_a_session_whose_server_dies_ends_by_itself() -> None:
    with ServerProcess() as server:
        arguments = ("session", "--json", "--put", "k", "v", "--session-timeout", "2s")
        with program("-a", server.address, *arguments) as process:
            json_of(process)
            json_of(process)
            server.kill()
            _, complaints = process.communicate(timeout=WAIT_S)
        assert process.returncode == EXIT_FAILURE
        assert "is lost" in complaints


def test_locks_are_held_one_after_another_under_growing_terms(url: str) -> None:
    arguments = ("--store", url, "--json", "lock", "/lock/one")
    with program(*arguments) as holder:
        held = json_of(holder)
        assert (held["event"], held["name"]) == ("locked", "/lock/one")
        with program(*arguments) as waiter, program("--store", url, "lock", "--wait", "10ms", "/lock/one") as hasty:
            _, complaints = hasty.communicate(timeout=WAIT_S)
            assert hasty.returncode == EXIT_FAILURE
            assert "/lock/one" in complaints
            code, printed, complaints = ending(holder, signal.SIGINT)
            assert (code, complaints) == (EXIT_SUCCESS, "")
            assert '"released"' in printed
            following = json_of(waiter)
            assert following["event"] == "locked"
            assert following["term"] > held["term"]
            assert ending(waiter, signal.SIGTERM)[0] == EXIT_SUCCESS


def test_a_wait_for_a_lock_can_be_interrupted(url: str, store: BlockingStore) -> None:
    with program("--store", url, "--json", "lock", "/lock/two") as holder:
        json_of(holder)
        with program("--store", url, "--json", "lock", "/lock/two") as waiter:
            watch = store.watch()
            while not any(change.key.startswith("/lock/two") for change in next(watch).changes):
                pass  # until it stands in line
            watch.close()
            assert ending(waiter, signal.SIGINT) == (EXIT_INTERRUPTED, "", "")
        assert ending(holder, signal.SIGINT)[0] == EXIT_SUCCESS


def test_a_leader_says_what_it_is_and_resigns(url: str, store: BlockingStore) -> None:
    with program("--store", url, "--json", "elect", "--identity", "me", "/role", "here:80") as leader:
        elected = json_of(leader)
        assert (elected["event"], elected["name"]) == ("elected", "/role")
        record = store.get("/role")
        assert record is not None
        assert record.value is not None
        assert (b"here:80" in record.value, record.version.identity) == (True, "me")
        code, printed, _ = ending(leader, signal.SIGTERM)
        assert (code, '"released"' in printed) == (EXIT_SUCCESS, True)
    assert store.get("/role") is None


def test_a_leader_whose_record_is_taken_away_ends_with_its_command(url: str, store: BlockingStore) -> None:
    script = "echo $TIDEMARK_TERM; exec sleep 1000"
    with program("--store", url, "elect", "/deposed", "me", "--", "sh", "-c", script) as leader:
        assert int(line_of(leader)) >= 0
        store.delete("/deposed")
        _, complaints = leader.communicate(timeout=WAIT_S)
    assert leader.returncode == EXIT_FAILURE
    assert "is over" in complaints


def test_a_command_gets_the_signals_of_its_holder(embedded: str) -> None:
    script = "trap 'echo told; exit 5' TERM; echo begun; while :; do sleep 0.05; done"
    with program("--store", embedded, "lock", "/l", "--", "sh", "-c", script) as holder:
        assert line_of(holder) == "begun\n"
        assert ending(holder, signal.SIGTERM) == (5, "told\n", "")
    with BlockingStore.open(embedded) as store:
        assert list(store.list()) == []
