"""Where a watch can be resumed, as text: the watch it is of, and the next offset of each shard.

A token is base64url of

    version u8, 1 | store, 8 bytes | range, 8 bytes | offset u64 of each shard, in their order | checksum u32

where `store` and `range` are digests, by which a token that is used for something else is found out.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence
from hashlib import blake2b

from metastore.interface import InvalidToken, Range

VERSION = 1
_HEAD = struct.Struct("<B8s8s")
_OFFSET = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


class TokenForm:
    """Makes and reads the tokens of one watch."""

    def __init__(
        self, store_identity: str, range: Range, index: str | None, partition_key: str | None, shards: int
    ) -> None:
        self._range = range
        self._shards = shards
        self._store_digest = _digest([store_identity])
        self._range_digest = _digest([range.start, range.end, index, partition_key])
        self._head = _HEAD.pack(VERSION, self._store_digest, self._range_digest)

    def make(self, offsets: Sequence[int]) -> str:
        """The token of a watch that has been told everything below these offsets."""
        assert len(offsets) == self._shards, "one offset for each shard"
        body = self._head + b"".join(map(_OFFSET.pack, offsets))
        return base64.urlsafe_b64encode(body + _CHECKSUM.pack(binascii.crc32(body))).decode().rstrip("=")

    def read(self, token: str) -> list[int]:
        """The offsets of a token; InvalidToken if it is none, or not of this watch."""
        body = _checked_body(token)
        _, store_digest, range_digest = _HEAD.unpack_from(body)
        if store_digest != self._store_digest:
            raise InvalidToken("the token is of another store, or of one that was emptied since: begin with a snapshot")
        if range_digest != self._range_digest:
            raise InvalidToken(
                f"the token is of another watch than that of {self._range}: resume with the same range, index and "
                "partition key"
            )
        offsets = [offset for (offset,) in _OFFSET.iter_unpack(body[_HEAD.size :])]
        if len(offsets) != self._shards:
            raise InvalidToken(f"the token is of {len(offsets)} shards, and the watch of {self._shards}")
        return offsets


def _checked_body(token: str) -> bytes:
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise InvalidToken(f"{token[:80]!r} is no token of a watch: {error}") from None
    body, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    is_whole = len(body) >= _HEAD.size and (len(body) - _HEAD.size) % _OFFSET.size == 0
    if not is_whole or _CHECKSUM.pack(binascii.crc32(body)) != checksum:
        raise InvalidToken(f"{token[:80]!r} is no token of a watch: it was cut off or changed")
    if body[0] != VERSION:
        raise InvalidToken(f"the token has format {body[0]}, and this version reads format {VERSION}")
    return body


def _digest(parts: Sequence[str | None]) -> bytes:
    """Eight bytes of all parts; None is told from any text."""
    digest = blake2b(digest_size=8)
    for part in parts:
        data = b"" if part is None else part.encode()
        digest.update(b"-" if part is None else b"%d:" % len(data))
        digest.update(data)
    return digest.digest()
