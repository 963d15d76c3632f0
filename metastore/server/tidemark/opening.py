"""What a client asks for when it opens a watch, checked and understood."""

from __future__ import annotations

import grpc

from metastore.pb import tidemark_pb2
from metastore.server.errors import OWN_DOMAIN, RpcError, invalid, notifications_disabled
from metastore.server.host import Host, ShardHost
from metastore.watch.spec import NOW, WatchSpec

WATCH_CREDIT_MAX = (1 << 31) - 1
"""Events that a watch may be allowed ahead; what waits at the server does not depend on it."""


def shard_of(request: tidemark_pb2.CreateWatch, host: Host) -> ShardHost:
    """The shard to watch; refuses what is not served here, and what nobody may watch."""
    shard = host.shard(request.shard if request.HasField("shard") else None)
    if not shard.namespace.notifications_enabled:
        raise notifications_disabled()
    if request.HasField("store_id"):
        _check_store(request, shard, host)
    return shard


def _check_store(request: tidemark_pb2.CreateWatch, shard: ShardHost, host: Host) -> None:
    """Offsets mean something only to the store that they are of, as long as that has not gone back in time."""
    reached = shard.watches.next_offset
    if request.store_id != host.identity.encode():
        why = "the watch belongs to another store than the one that is served here: its offsets mean nothing here"
    elif request.beginning == tidemark_pb2.OFFSET and request.from_offset > reached:
        why = (
            f"the watch has come to offset {request.from_offset}, and the shard to {reached}: "
            "the store has lost data since, or was restored"
        )
    else:
        return
    raise RpcError(grpc.StatusCode.FAILED_PRECONDITION, why, "STORE_CHANGED", OWN_DOMAIN)


def spec_of(request: tidemark_pb2.CreateWatch) -> WatchSpec:
    """The range and the beginning of a watch."""
    has_index = request.HasField("index_name")
    if has_index and not request.index_name:
        raise invalid("a watch of an index needs the name of the index")
    return WatchSpec(
        request.start_inclusive,
        request.end_exclusive,
        request.index_name if has_index else None,
        _beginning(request),
        request.previous_values,
    )


def _beginning(request: tidemark_pb2.CreateWatch) -> int | None:
    if request.beginning == tidemark_pb2.SNAPSHOT:
        return None
    if request.beginning == tidemark_pb2.NOW:
        return NOW
    if request.beginning != tidemark_pb2.OFFSET:
        raise invalid(f"the beginning of a watch is {request.beginning}: SNAPSHOT, NOW or OFFSET are known")
    if request.from_offset < 0:
        raise invalid(f"a watch cannot begin with offset {request.from_offset}: the first of all is 0")
    return request.from_offset


def added_credit(credit: int, events: int) -> int:
    """A watch's credit after a grant."""
    if events < 0 or credit + events > WATCH_CREDIT_MAX:
        raise invalid(f"{events} events of credit: 0 to {WATCH_CREDIT_MAX - credit} can be granted (WATCH_CREDIT_MAX)")
    return credit + events
