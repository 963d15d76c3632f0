"""What is done once in each of Spark's worker processes, so that they can be used again and again."""

from __future__ import annotations

import ctypes
import gc
from functools import lru_cache

KEPT_BLOCK_BYTES = 32 << 20
"""What is no larger than this comes out of memory that the process keeps ..."""
KEPT_FREE_BYTES = 64 << 20
"""... of which so much may be free."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""As malloc.h numbers them."""


@lru_cache(maxsize=1)
def settle() -> None:
    """To be called when everything is imported."""
    # Spark collects garbage after every task, and what is there by now will stay.
    gc.collect()
    gc.freeze()
    # Messages of megabytes come and go. To give their memory back, and to fetch it again page by page, takes as long as
    # all else that is done to receive them.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's; others have none, and do as they do
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, KEPT_BLOCK_BYTES)
        mallopt(_TRIM_THRESHOLD, KEPT_FREE_BYTES)
