"""The limits of this provider, by name. docs/zookeeper.md explains them."""

from __future__ import annotations

ZK_VALUE_BYTES_MAX = 500_000
"""Of one value. A write carries the new value and, for the change log, the one it replaces, in one request."""
ZK_WRITE_BYTES_MAX = 1_010_000
"""Of one write as ZooKeeper gets it: ZooKeeper's own limit, jute.maxbuffer, is 1,048,575 bytes unless it is set."""
REQUEST_BYTES_MAX = 1_030_000
"""What removals may grow to, so that nothing that could be stored is too large to be removed."""

ROOT_CHARACTERS_MAX = 100
"""Of the path in the URL: it stands in every operation."""

GROUP_WRITES_MAX = 64
"""Writes of one process that are committed together."""
WAITING_WRITES_MAX = 10_000
"""Writes that may wait for their turn; more are refused as overload."""
CONFLICTS_MAX = 500
"""How often writers elsewhere may be faster than a write before it is refused as overload."""

SWEEP_RECORDS_MAX = 500
"""Records that one write removes at most, of a range or of a session that has ended; more are removed in portions."""
SWEEP_BYTES_MAX = 600_000
"""Of one such portion, as it is estimated."""

CONFLICTS_BEFORE_ASKING = 8
"""After so many a writer asks the others for room."""
ROOM_S = 0.05
"""So long they pause between two writes then."""

LOG_ENTRIES_MAX = 10_000
"""Writes that are kept for watches and scans."""
LOG_BYTES_MAX = 32 << 20
TRIM_ENTRIES = 64
"""The log is trimmed when it is so many entries over its limit, and by no more than twice as many at a time."""
TRIM_ENTRIES_MIN = 8
TRIM_BYTES = 1 << 20
"""About as much of the log is read, at a time, to trim it."""

READS_PER_BATCH_MAX = 50
BATCHES_IN_FLIGHT_MAX = 4
"""kazoo is told of each request by a byte through a socket, and blocks the event loop at the 279th it has not taken."""
SCAN_PORTION_RECORDS = 50
"""Records that a scan or a snapshot reads at a time."""
WATCH_WRITES_MAX = 64
"""Writes that a watch looks at for one batch."""
PROGRESS_WRITES = 64
"""After so many writes that do not concern it a watch tells its progress."""
SCAN_ATTEMPTS_MAX = 10
"""How often a snapshot of a watch begins anew because the log no longer reaches back to its beginning."""
LOG_CACHE_ENTRIES = 256
LOG_CACHE_BYTES = 8 << 20
"""What a process keeps of the log, for watches that are about at the same place."""
