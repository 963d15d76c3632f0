"""The two key orders of a namespace, and the order of records that share one secondary key."""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_letters, digits

INTERNAL_PREFIX = b"__oxia/"
MAX_DEPTH = 32_767
INTERNAL_BIT = 0x8000
UNESCAPED = (ascii_letters + digits + "-_.~$&+:=@").encode()

Encoder = Callable[[bytes], bytes]


def is_internal(key: bytes) -> bool:
    """Keys of the server's own; users may write them, but they are shown only on request."""
    return key.startswith(INTERNAL_PREFIX)


def hierarchical(key: bytes) -> bytes:
    """Shallow keys before deep ones: the depth as two bytes, then the key with `/` above every other byte."""
    depth = key.count(b"/") - key.endswith(b"//")
    prefix = min(depth, MAX_DEPTH) | (INTERNAL_BIT if is_internal(key) else 0)
    return prefix.to_bytes(2, "big") + key.replace(b"/", b"\xff")


def natural(key: bytes) -> bytes:
    """The bytes as they are; internal keys after all others."""
    return b"\xff\xff" + key[2:] if is_internal(key) else key


ENCODERS: dict[str, Encoder] = {"hierarchical": hierarchical, "natural": natural}


def path_escaped(key: bytes) -> bytes:
    """As in a URL's path segment: decides between the records of one secondary key."""
    return b"".join(bytes([byte]) if byte in UNESCAPED else b"%%%02X" % byte for byte in key)
