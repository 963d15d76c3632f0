"""What is done once in each of Spark's worker processes, so that they can be used again and again."""

from __future__ import annotations

import gc
from functools import lru_cache

from metastore.allocation import keep_freed_memory


@lru_cache(maxsize=1)
def settle() -> None:
    """To be called when everything is imported."""
    # Spark collects garbage after every task, and what is there by now will stay.
    gc.collect()
    gc.freeze()
    keep_freed_memory()
