"""The parts that keep a read small: a window that fetches pieces, an index that knows where to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.log.index import INDEX_STEP_BYTES, OffsetIndex
from metastore.log.window import Window

CONTENT = bytes(range(256)) * 8


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("piece_bytes", [1, 100, 4096])
def test_a_window_shows_the_file_up_to_its_end(fd: int, piece_bytes: int) -> None:
    end = len(CONTENT) - 50
    window = Window(fd, end, piece_bytes)
    for position, length in [
        (0, 10),
        (5, 1),
        (200, 300),
        (0, 1),
        (end - 10, 10),
        (end - 10, 60),
        (end + 9, 8),
    ]:
        buffer, at = window.at(position, length)
        shown = CONTENT[position : min(position + length, end)]
        assert buffer[at : at + length] == shown
        assert window.padded(position, length) == shown.ljust(length, b"\0")


@pytest.mark.parametrize("piece_bytes", [7, 100, 4096])
def test_pieces_follow_each_other(fd: int, piece_bytes: int) -> None:
    pieces = list(Window(fd, len(CONTENT), piece_bytes).pieces(30, 500))
    assert b"".join(piece for _, piece in pieces) == CONTENT[30:500]
    assert all(CONTENT[position : position + len(piece)] == piece for position, piece in pieces)


@given(
    frames=st.lists(st.tuples(st.integers(1, 50), st.integers(56, 30_000) | st.integers(56, 200_000)), max_size=60),
    again=st.booleans(),
)
def test_a_search_walks_no_further_than_one_step(frames: list[tuple[int, int]], again: bool) -> None:
    """What the index names is a true place, and less than a step before the one looked for."""
    index = OffsetIndex(1000, 48)
    places = [(1000, 48)]
    for entries, size in frames:
        places.append((places[-1][0] + entries, places[-1][1] + size))
    for _ in range(1 + again):
        for offset, position in places:
            index.learn(offset, position)
    for offset, position in places:
        known_offset, known_position = index.floor(offset)
        assert (known_offset, known_position) in places
        assert known_offset <= offset
        assert position - known_position < INDEX_STEP_BYTES
