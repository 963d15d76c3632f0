"""Payloads of entries, smaller on their way. What is taken out of one is bounded, whatever it says of itself. Pure.

Compression.NONE    as it is
Compression.ZLIB    everywhere, slower
Compression.ZSTD    faster, and mostly smaller
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from enum import Enum

import zstandard

from controller.pb import broker_pb2 as pb
from txn.segment.entry import UNCOMPRESSED_BYTES_MAX

ZLIB_LEVEL = 6
ZSTD_LEVEL = 3
ZSTD_WINDOW_BYTES_MAX = 8 << 20
"""How far what is taken out may look back; what is put in here needs less."""


class Compression(Enum):
    """How a producer compresses its entries."""

    NONE = pb.UNCOMPRESSED
    ZLIB = pb.ZLIB
    ZSTD = pb.ZSTD


class PayloadDamaged(Exception):
    """It does not say what was put into it, or says too much."""


def compressed(payload: bytes, compression: Compression) -> bytes | None:
    """The payload, smaller; None if it would not be, or could not be taken out again."""
    if compression is Compression.NONE or not 0 < len(payload) <= UNCOMPRESSED_BYTES_MAX:
        return None
    if compression is Compression.ZLIB:
        smaller = zlib.compress(payload, ZLIB_LEVEL)
    else:
        smaller = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(payload)
    return smaller if len(smaller) < len(payload) else None


def decompressed(data: bytes, compression: int, size: int) -> bytes:
    """The payload of so many bytes that this was made of. No more than those are ever made of it."""
    if compression == pb.UNCOMPRESSED:
        return data
    if not 0 < size <= UNCOMPRESSED_BYTES_MAX:
        raise PayloadDamaged(f"{size} bytes before compression: 1 to {UNCOMPRESSED_BYTES_MAX} (UNCOMPRESSED_BYTES_MAX)")
    unpacker = _UNPACKERS.get(compression)
    if unpacker is None:
        raise PayloadDamaged(f"compression {compression} is not known: use a newer version of this library")
    payload = unpacker(data, size)
    if len(payload) != size:
        raise PayloadDamaged(f"{len(payload)} bytes or more came out of what says that it was {size}")
    return payload


def _from_zlib(data: bytes, size: int) -> bytes:
    try:
        stream = zlib.decompressobj()
        payload = stream.decompress(data, size)
        # What is left is the checksum at most: another byte of content would be one too many.
        more = b"" if stream.eof else stream.decompress(stream.unconsumed_tail, 1)
    except zlib.error as error:
        raise PayloadDamaged(f"zlib: {error}") from None
    if not stream.eof:
        raise PayloadDamaged(f"zlib: it does not end behind {size} bytes")
    return payload + more


def _from_zstd(data: bytes, size: int) -> bytes:
    try:
        # By the stream, whose memory and output are bounded: a frame's own word for its size is nobody's promise.
        with zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX).stream_reader(data) as stream:
            return stream.read(size + 1)
    except zstandard.ZstdError as error:
        raise PayloadDamaged(f"zstd: {error}") from None


_UNPACKERS: Mapping[int, Callable[[bytes, int], bytes]] = {pb.ZLIB: _from_zlib, pb.ZSTD: _from_zstd}
