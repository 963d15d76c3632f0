"""The columns, as DDL. All are nullable; times are microseconds in UTC."""

from __future__ import annotations

RECORDS = (
    "key STRING, value BINARY, version_id BIGINT, modifications BIGINT, created TIMESTAMP, modified TIMESTAMP, "
    "session BIGINT, shard INT"
)
"""Of a batch read."""
INDEX_ENTRIES = f"secondary_key STRING, {RECORDS}"
"""Of a batch read over an index."""
CHANGES = f"change STRING, `offset` BIGINT, time TIMESTAMP, {RECORDS}"
"""Of a stream."""
AS_OF = "as_of"
"""When what a row says was so: a column that can be asked for where the reader has said it."""
AS_OF_SCHEMA = f"{AS_OF} TIMESTAMP"
