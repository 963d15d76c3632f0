"""The engine's bytes as values of the contract, and the other way round. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from metastore.engine import operations as engine
from metastore.engine.record import entry_of
from metastore.interface import Comparison, Index, PutResult, Range, Record, Version
from metastore.pb import oxia_pb2 as pb

COMPARISONS = {
    Comparison.EQUAL: engine.Comparison.EQUAL,
    Comparison.FLOOR: engine.Comparison.FLOOR,
    Comparison.CEILING: engine.Comparison.CEILING,
    Comparison.LOWER: engine.Comparison.LOWER,
    Comparison.HIGHER: engine.Comparison.HIGHER,
}


def raw_indexes(indexes: Iterable[Index]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode(), secondary.encode()) for name, secondary in indexes)


def raw_range(range: Range, index: str | None) -> engine.Range:
    return engine.Range(range.start.encode(), range.end.encode(), None if index is None else index.encode())


def put_result(key: str, result: engine.PutResult) -> PutResult:
    """What was stored; `key` is the one that was asked for."""
    _, version, new_key = result
    return PutResult(key if new_key is None else new_key.decode(), _version(pb.Version.FromString(version)))


def record_of(blob: bytes, include_value: bool = True, secondary_key: bytes | None = None) -> Record:
    """A stored record, and the secondary key by which it was found."""
    (found,) = pb.RangeScanResponse.FromString(entry_of(blob)).records
    return _record(found, include_value, secondary_key)


def records_of(blobs: Sequence[bytes]) -> list[Record]:
    """Stored records, parsed all at once."""
    return [_record(found, True, None) for found in _parsed(blobs)]


def records_by_index(blobs: Sequence[bytes], secondary_keys: Iterable[bytes]) -> list[Record]:
    """Stored records, each with the secondary key by which it was found."""
    return [_record(found, True, key) for found, key in zip(_parsed(blobs), secondary_keys, strict=True)]


def _parsed(blobs: Sequence[bytes]) -> Sequence[pb.GetResponse]:
    found = pb.RangeScanResponse.FromString(b"".join(map(entry_of, blobs))).records
    assert len(found) == len(blobs), "every stored record is one entry"
    return found


def _record(found: pb.GetResponse, include_value: bool, secondary_key: bytes | None) -> Record:
    return Record(
        found.key.decode(),
        found.value if include_value else None,
        _version(found.version),
        None if secondary_key is None else secondary_key.decode(),
    )


def _version(version: pb.Version) -> Version:
    return Version(
        version.version_id,
        version.modifications_count,
        version.created_timestamp,
        version.modified_timestamp,
        version.session_id if version.HasField("session_id") else None,
        version.client_identity.decode() if version.HasField("client_identity") else None,
    )
