"""The limits of watches, by name. docs/limits.md lists them; each has a test at the limit."""

from __future__ import annotations

WATCHES_MAX = 20_000
"""Open watches of one shard."""
FEED_EVENTS_MAX = 4_096
FEED_BYTES_MAX = 2 << 20
"""What may wait for the reader of a caught-up watch; beyond it the watch reads from the log again."""
LIVE_BYTES_MAX = 64 << 20
"""What may wait for the readers of all caught-up watches of a shard; while it is more, whoever has more than an equal
part of it waiting reads from the log again."""
LOG_READ_BYTES = 256 << 10
"""Log that one `take` of a lagging watch reads: about, and one round at least."""
LONG_SNAPSHOTS_MAX = 64
"""Snapshots of more than one chunk under way at a time; further ones wait for their turn."""
SNAPSHOT_STANDS_S = 60.0
"""A snapshot from which nothing was taken for so long is let go, and begins anew when its reader comes back."""
