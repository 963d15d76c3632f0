"""Records as a store hands them to views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metastore.pb import oxia_pb2
from metastore.spark.records import Records, records_of_entries

SHARD = 3


def records(pairs: Sequence[tuple[str, bytes]], times: Mapping[str, tuple[int, int]] | None = None) -> Records:
    """Keys and values as records; `times` says when they were created and modified."""
    entries = []
    for version_id, (key, value) in enumerate(pairs):
        response = oxia_pb2.RangeScanResponse()
        record = response.records.add(value=value, key=key.encode())
        created_ms, modified_ms = (times or {}).get(key, (5, 7))
        record.version.CopyFrom(
            oxia_pb2.Version(
                version_id=version_id,
                modifications_count=0,
                created_timestamp=created_ms,
                modified_timestamp=modified_ms,
            )
        )
        entries.append(response.SerializeToString())
    return records_of_entries(entries, SHARD)
