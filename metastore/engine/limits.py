"""The limits of a shard, by name. docs/limits.md lists them; each has a test at the limit."""

from __future__ import annotations

KEY_BYTES_MAX = 128 << 10
"""Of a key, a partition key, an index name, a secondary key or a client identity."""
VALUE_BYTES_MAX = 64 << 20
REQUEST_BYTES_MAX = 128 << 20
"""Of all the values and keys of one write request."""
TRANSACTION_OPERATIONS_MAX = 10_000
"""Operations and conditions of one transaction, together."""
TRANSACTIONS_PER_CALL_MAX = 256
"""That one message brings."""
SECONDARY_INDEXES_MAX = 1000
"""Index entries of one record."""
SEQUENCE_PARTS_MAX = 32
SEQUENCE_NUMBER_MAX = (1 << 64) - 1
"""The greatest number in a sequence key."""

SESSION_TIMEOUT_MS_MIN = 2_000
SESSION_TIMEOUT_MS_MAX = 300_000
SESSIONS_PER_EXPIRY_MAX = 128
"""Sessions that one write may expire."""

PREVIOUS_BYTES_MAX = 64 << 20
"""What one log entry may hold of records as they were before; what a request replaces beyond that is not kept."""

ROUND_REQUESTS_MAX = 1024
ROUND_BYTES_MAX = 16 << 20
"""A round takes no further request once it has staged so many bytes of log."""
WAITING_REQUESTS_MAX = 100_000
"""Write requests that may wait for their round; more are refused as overload."""

SCAN_CHUNK_ITEMS_MAX = 1000
SCAN_CHUNK_BYTES = 2 << 20
"""Of keys and values, read in one go; the value by which it is reached is the last."""
POINTS_MAX = 128
"""Points that may be held on a shard at a time: each keeps a copy of what LMDB lacks, and LMDB from reusing pages."""
POINT_HOLD_MS_MIN = 1_000
POINT_HOLD_MS_MAX = 3_600_000
"""How long a point may be held after its last use."""
PASSING_POINT_HOLD_MS = 10_000
"""A passing point stays for so long after its last use, and then for as long as there is room."""
SNAPSHOTS_MAX = 512
"""Long scans that may be under way at a time."""
