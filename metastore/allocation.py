"""What a process does with the memory of messages of megabytes, which come and go."""

from __future__ import annotations

import ctypes

KEPT_BLOCK_BYTES = 32 << 20
"""What is no larger than this comes out of memory that the process keeps ..."""
KEPT_FREE_BYTES = 64 << 20
"""... of which so much may be free."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""As malloc.h numbers them."""


def keep_freed_memory() -> None:
    """To give the memory of a message back, and to fetch it again page by page, takes a reader as long as all else that
    he does to receive it, and a tenth of the time of whoever sends."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's; others have none, and do as they do
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, KEPT_BLOCK_BYTES)
        mallopt(_TRIM_THRESHOLD, KEPT_FREE_BYTES)
