"""The offsets in a token, read without the code that makes tokens (its form is in metastore/providers/tokens.py)."""

from __future__ import annotations

import base64
import binascii
import struct

HEAD_BYTES = 17
CHECKSUM_BYTES = 4


def offsets_of(token: str) -> list[int]:
    """The next offset of each shard, in the order of the watch's shards."""
    body = _bytes_of(token)[HEAD_BYTES:-CHECKSUM_BYTES]
    return [offset for (offset,) in struct.iter_unpack("<Q", body)]


def with_offsets(token: str, offsets: list[int]) -> str:
    """A token of the same watch that stands elsewhere."""
    body = _bytes_of(token)[:HEAD_BYTES] + struct.pack(f"<{len(offsets)}Q", *offsets)
    return base64.urlsafe_b64encode(body + struct.pack("<I", binascii.crc32(body))).decode().rstrip("=")


def _bytes_of(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
