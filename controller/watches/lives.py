"""Whether two versions are of one record, or of two lives under one key, with a deletion between them."""

from __future__ import annotations

from metastore.interface import Version


def is_same_life(before: Version, after: Version) -> bool:
    """Whether nobody can have deleted the record in between. A record that is created anew counts from nothing."""
    if after.version_id == before.version_id:
        return True
    return after.created_ms == before.created_ms and after.modifications > before.modifications
