"""The methods of both services by their paths, and text as it travels."""

from __future__ import annotations

from metastore.interface.errors import InvalidRequest

_OXIA = "/io.oxia.proto.v1.OxiaClient/"
_OWN = "/tidemark.metastore.v1.Metastore/"

ASSIGNMENTS = _OXIA + "GetShardAssignments"
WRITE_STREAM = _OXIA + "WriteStream"
READ = _OXIA + "Read"
LIST = _OXIA + "List"
RANGE_SCAN = _OXIA + "RangeScan"
SEQUENCE_UPDATES = _OXIA + "GetSequenceUpdates"
NOTIFICATIONS = _OXIA + "GetNotifications"
CREATE_SESSION = _OXIA + "CreateSession"
KEEP_ALIVE = _OXIA + "KeepAlive"
CLOSE_SESSION = _OXIA + "CloseSession"

DESCRIBE = _OWN + "Describe"
TRANSACT = _OWN + "Transact"
TRANSACT_MANY = _OWN + "TransactMany"
INDEX_SCAN = _OWN + "IndexScan"
WATCH = _OWN + "Watch"
HOLD_POINT = _OWN + "HoldPoint"
RELEASE_POINT = _OWN + "ReleasePoint"
CUT_RANGE = _OWN + "CutRange"
BULK_SCAN = _OWN + "BulkScan"
REACH = _OWN + "Reach"
CHANGES = _OWN + "Changes"


def to_wire(text: str) -> bytes:
    """A key or name as it travels; the inverse of `from_wire`, whatever the bytes were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{text!r} has no form in UTF-8: leave out its lone surrogates") from error


def from_wire(raw: bytes) -> str:
    """A key or name as callers see it; bytes that are not UTF-8, which a plain Oxia may hold, are escaped."""
    return raw.decode("utf-8", "surrogateescape")
