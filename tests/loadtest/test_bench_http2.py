"""Frames and messages survive any way of being cut into pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.bench import http2

FRAMES = st.builds(
    http2.Frame, st.integers(0, 9), st.integers(0, 255), st.integers(0, http2.WINDOW_MAX), st.binary(max_size=300)
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(st.lists(FRAMES), st.lists(st.integers(0, 10_000)))
def test_frames_come_back_whole(frames: list[http2.Frame], places: list[int]) -> None:
    found, rest = [], b""
    for piece in cut(b"".join(http2.frame(*each) for each in frames), places):
        complete, rest = http2.read_frames(rest + piece)
        found += complete
    assert (found, rest) == (frames, b"")


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(0, 10_000)))
def test_messages_come_back_whole(bodies: list[bytes], places: list[int]) -> None:
    found, buffer = [], bytearray()
    for piece in cut(b"".join(map(http2.message, bodies)), places):
        buffer += piece
        found += http2.read_messages(buffer)
    assert (found, bytes(buffer)) == (bodies, b"")


def test_a_compressed_message_is_refused() -> None:
    with pytest.raises(ValueError, match="compressed"):
        http2.read_messages(bytearray(b"\x01\0\0\0\0"))


def test_settings_come_back() -> None:
    settings = {http2.HEADER_TABLE_SIZE: 0, http2.INITIAL_WINDOW: http2.WINDOW_MAX}
    ((kind, flags, stream, payload),), _rest = http2.read_frames(http2.settings_frame(settings))
    assert (kind, flags, stream) == (http2.SETTINGS, 0, 0)
    assert http2.read_settings(payload) == settings


def test_headers_are_told_in_full_and_then_referred_to() -> None:
    assert http2.introducing_block([("a", "bc")]) == b"\x40\x01a\x02bc"
    # The last one added has the first number after the static table, 62.
    assert http2.referring_block(3) == bytes([0x80 | 64, 0x80 | 63, 0x80 | 62])
