"""The log of a killed server is torn or changed by hand: what was never promised goes, all else is refused."""

from __future__ import annotations

import random
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
ALIGNMENT_BYTES = 8
ACKNOWLEDGED = {b"key-%02d" % number: b"%d." % number * 300 for number in range(20)}
UNACKNOWLEDGED = b"never-answered"
FRAME_BYTES_MIN = 4000
FLIPS = 4

Tear = Callable[[bytes, int, int], bytes]
"""What a crash makes of a file's bytes; the unfinished frame stands between the two positions."""


def log_path_of(server: FaultyServer) -> Path:
    (path,) = (server.data_directory / LOG).iterdir()
    return path


def written_end(path: Path) -> int:
    """Behind the last byte that is not blank."""
    return len(path.read_bytes().rstrip(b"\0"))


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    """Killed at rest; all that its log holds was acknowledged."""
    with FaultyServer() as started:
        with WireClient(started.address) as wire:
            codes = {put_code(wire, key, value) for key, value in ACKNOWLEDGED.items()}
        assert codes == {grpc.StatusCode.OK}
        started.kill()
        yield started


@pytest.fixture
def acknowledged_end(server: FaultyServer) -> int:
    """Where the last acknowledged frame ends: the next one begins here."""
    return -(-written_end(log_path_of(server)) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


@pytest.fixture
def unacknowledged_end(server: FaultyServer, acknowledged_end: int) -> int:
    """The server has started once more, and was killed behind an append, before its fsync; the frame ends here."""
    server.arm("log.append.after:1:kill")
    server.start()
    with WireClient(server.address) as wire:
        code = put_code(wire, UNACKNOWLEDGED, b"x" * FRAME_BYTES_MIN)
    assert code is grpc.StatusCode.UNAVAILABLE
    server.wait_until_killed()
    server.arm(None)
    end = written_end(log_path_of(server))
    assert end - acknowledged_end > FRAME_BYTES_MIN, "the frame is not there"
    return end


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
    server: FaultyServer, acknowledged_end: int, unacknowledged_end: int, tear: Tear
) -> None:
    path = log_path_of(server)
    path.write_bytes(tear(path.read_bytes(), acknowledged_end, unacknowledged_end))
    server.start()
    with WireClient(server.address) as wire:
        assert values(wire) == ACKNOWLEDGED
        assert put_code(wire, b"more", b"1") is grpc.StatusCode.OK
    server.restart("kill")
    with WireClient(server.address) as wire:
        assert values(wire) == {**ACKNOWLEDGED, b"more": b"1"}


@pytest.mark.usefixtures("unacknowledged_end")
def test_a_frame_that_is_whole_is_kept(server: FaultyServer) -> None:
    server.start()
    with WireClient(server.address) as wire:
        assert values(wire) == {**ACKNOWLEDGED, UNACKNOWLEDGED: b"x" * FRAME_BYTES_MIN}


def test_a_flipped_bit_is_refused(server: FaultyServer, acknowledged_end: int) -> None:
    choice = random.Random(0)
    path = log_path_of(server)
    data = path.read_bytes()
    for place in [*(choice.randrange(acknowledged_end) for _ in range(FLIPS)), acknowledged_end - 1]:
        changed = bytearray(data)
        changed[place] ^= 1 << choice.randrange(8)
        path.write_bytes(changed)
        server.log_path.unlink()
        with pytest.raises(ServerFailure, match="the server ended with 1:") as refusal:
            server.start()
        assert str(path) in str(refusal.value), place
        assert path.read_bytes() == changed, "a refusal changes nothing"
    path.write_bytes(data)
    server.start()
    with WireClient(server.address) as wire:
        assert values(wire) == ACKNOWLEDGED
