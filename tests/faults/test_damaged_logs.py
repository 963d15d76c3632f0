"""The log of a killed server is torn or changed by hand: what was never promised goes, all else is refused."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from crash_client import put_code, values
from crash_server import FaultyServer

from support.server import ServerFailure
from support.wire import WireClient

LOG = Path("shards/0000/log")
SECTOR_BYTES = 512
ACKNOWLEDGED = {b"key-%02d" % number: b"%d." % number * 300 for number in range(20)}
UNACKNOWLEDGED = b"never-answered"
FRAME_BYTES_MIN = 4000
FLIPS = 8

Tear = Callable[[bytes, int, int], bytes]
"""What a crash makes of a file's bytes; the unfinished frame stands between the two positions."""


class KilledServer:
    """A server that was killed behind its append, before its fsync; its data, and where the last frame is."""

    def __init__(self, server: FaultyServer, copy: Path) -> None:
        self.server = server
        self._copy = copy
        self._keep_data()
        (self.log_path,) = (server.data_directory / LOG).iterdir()

    def _keep_data(self) -> None:
        shutil.copytree(self.server.data_directory, self._copy)

    def restore(self) -> None:
        """Everything is as it was when the server was killed."""
        self.server.kill()
        shutil.rmtree(self.server.data_directory)
        shutil.copytree(self._copy, self.server.data_directory)


def written_end(data: bytes) -> int:
    """Behind the last byte that is not blank."""
    return len(data.rstrip(b"\0"))


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as started:
        with WireClient(started.address) as wire:
            codes = {put_code(wire, key, value) for key, value in ACKNOWLEDGED.items()}
        assert codes == {grpc.StatusCode.OK}
        started.kill()
        yield started


@pytest.fixture
def acknowledged_end(server: FaultyServer) -> int:
    """Where the last acknowledged frame ends: the next one begins here."""
    (log_path,) = (server.data_directory / LOG).iterdir()
    return -(-written_end(log_path.read_bytes()) // 8) * 8


def killed_in_write(server: FaultyServer, copy: Path) -> KilledServer:
    server.arm("log.append.after:1:kill")
    server.start()
    with WireClient(server.address) as wire:
        code = put_code(wire, UNACKNOWLEDGED, b"x" * FRAME_BYTES_MIN)
    assert code is grpc.StatusCode.UNAVAILABLE
    server.wait_until_killed()
    server.arm(None)
    return KilledServer(server, copy)


def cut_file_short(data: bytes, start: int, end: int) -> bytes:
    return data[: random.Random(start).randint(start + 1, end - 1)]


def without_last_sectors(data: bytes, start: int, end: int) -> bytes:
    cut = (end - 1) // SECTOR_BYTES * SECTOR_BYTES
    return data[:cut] + bytes(len(data) - cut)


def without_sector_in_the_middle(data: bytes, start: int, end: int) -> bytes:
    cut = (start + end) // 2 // SECTOR_BYTES * SECTOR_BYTES
    return data[:cut] + bytes(SECTOR_BYTES) + data[cut + SECTOR_BYTES :]


def only_last_sectors(data: bytes, start: int, end: int) -> bytes:
    """The sectors of a write may reach the disk in any order."""
    kept = (end - 1) // SECTOR_BYTES * SECTOR_BYTES
    return data[:start] + bytes(kept - start) + data[kept:]


@pytest.mark.parametrize(
    "tear", [cut_file_short, without_last_sectors, without_sector_in_the_middle, only_last_sectors]
)
def test_a_torn_frame_is_cut_off(
    server: FaultyServer, acknowledged_end: int, tmp_path: Path, tear: Tear
) -> None:
    killed = killed_in_write(server, tmp_path / "copy")
    data = killed.log_path.read_bytes()
    end = written_end(data)
    assert end - acknowledged_end > FRAME_BYTES_MIN, "the frame is not there"
    killed.log_path.write_bytes(tear(data, acknowledged_end, end))
    server.start()
    with WireClient(server.address) as wire:
        assert values(wire) == ACKNOWLEDGED
        assert put_code(wire, b"more", b"1") is grpc.StatusCode.OK
    server.restart("kill")
    with WireClient(server.address) as wire:
        assert values(wire) == {**ACKNOWLEDGED, b"more": b"1"}


def test_a_frame_that_is_whole_is_kept(server: FaultyServer, tmp_path: Path) -> None:
    killed_in_write(server, tmp_path / "copy")
    server.start()
    with WireClient(server.address) as wire:
        assert values(wire) == {**ACKNOWLEDGED, UNACKNOWLEDGED: b"x" * FRAME_BYTES_MIN}


def test_a_flipped_bit_is_refused(server: FaultyServer, acknowledged_end: int, tmp_path: Path) -> None:
    killed = KilledServer(server, tmp_path / "copy")
    choice = random.Random(0)
    data = killed.log_path.read_bytes()
    for place in [*(choice.randrange(acknowledged_end) for _ in range(FLIPS)), acknowledged_end - 1]:
        changed = bytearray(data)
        changed[place] ^= 1 << choice.randrange(8)
        killed.log_path.write_bytes(changed)
        with pytest.raises(ServerFailure, match="the server ended with 1") as refusal:
            server.start()
        assert str(killed.log_path) in str(refusal.value).rpartition("tidemark:")[2], refusal.value
        assert killed.log_path.read_bytes() == changed, "a refusal changes nothing"
        server.log_path.unlink()
    killed.restore()
    server.start()
    with WireClient(server.address) as wire:
        assert values(wire) == ACKNOWLEDGED
