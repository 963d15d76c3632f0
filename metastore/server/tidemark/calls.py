"""The calls of this service that answer and end: Describe, Transact, IndexScan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import metastore
from metastore.directory import Namespace
from metastore.engine import limits
from metastore.engine.errors import ConditionsFailed
from metastore.engine.operations import Range
from metastore.engine.scan import EntryScan
from metastore.pb import tidemark_pb2
from metastore.server.calls import OneRequest, StreamedAnswer
from metastore.server.errors import invalid
from metastore.server.host import Host, ShardHost
from metastore.server.tidemark.messages import TransactionOrder, decode, encode_index_entries
from metastore.server.tidemark.opening import WATCH_CREDIT_MAX
from metastore.server.tidemark.progress import PROGRESS_INTERVAL_S
from metastore.server.tidemark.watch_stream import WATCHES_PER_STREAM_MAX
from metastore.watch.limits import WATCHES_MAX

KEY_SORTINGS = {"hierarchical": tidemark_pb2.HIERARCHICAL, "natural": tidemark_pb2.NATURAL}


class DescribeCall(OneRequest):
    """Describe: a namespace, and what the server allows."""

    def handle(self, message: bytes) -> None:
        request = decode(tidemark_pb2.DescribeRequest, message)
        namespace = self.host.namespace(request.namespace)
        self.call.reply(describe(self.host, namespace).SerializeToString())


def describe(host: Host, namespace: Namespace) -> tidemark_pb2.DescribeResponse:
    """What a client is told about a namespace."""
    return tidemark_pb2.DescribeResponse(
        namespace=namespace.name.encode(),
        key_sorting=KEY_SORTINGS[namespace.key_sorting],
        shards=namespace.shard_ids,
        notifications_enabled=namespace.notifications_enabled,
        retention_ms=host.retention_ms,
        version=metastore.__version__,
        store_id=host.identity.encode(),
        limits=tidemark_pb2.Limits(
            key_bytes_max=limits.KEY_BYTES_MAX,
            value_bytes_max=limits.VALUE_BYTES_MAX,
            request_bytes_max=limits.REQUEST_BYTES_MAX,
            secondary_indexes_max=limits.SECONDARY_INDEXES_MAX,
            transaction_operations_max=limits.TRANSACTION_OPERATIONS_MAX,
            session_timeout_ms_min=limits.SESSION_TIMEOUT_MS_MIN,
            session_timeout_ms_max=limits.SESSION_TIMEOUT_MS_MAX,
            watches_per_stream_max=WATCHES_PER_STREAM_MAX,
            watches_per_shard_max=WATCHES_MAX,
            watch_credit_max=WATCH_CREDIT_MAX,
            progress_interval_ms=int(PROGRESS_INTERVAL_S * 1000),
        ),
    )


class TransactCall(OneRequest):
    """Transact: all or nothing."""

    def handle(self, message: bytes) -> None:
        request = decode(tidemark_pb2.TransactRequest, message)
        shard = self.host.shard(request.shard if request.HasField("shard") else None).shard
        order = TransactionOrder(request)

        def done(result: Any, error: BaseException | None) -> None:
            if isinstance(error, ConditionsFailed):
                self.call.reply(order.encode_failed(error.failed))
            elif error is not None:
                self.fail(error)
            else:
                self.call.reply(order.encode_result(result))

        shard.submit_transact(order.transaction, done)


class IndexScanCall(StreamedAnswer):
    """IndexScan: a range of an index, streamed from one state of the shard."""

    def messages(self, message: bytes) -> Iterator[bytes]:
        request = decode(tidemark_pb2.IndexScanRequest, message)
        host = self.host.shard(request.shard if request.HasField("shard") else None)
        if not request.index_name:
            raise invalid("an index scan needs the name of an index")
        wanted = Range(request.start_inclusive, request.end_exclusive, request.index_name)
        return _answers(host, host.shard.scan_entries(wanted, request.keys_only))


def _answers(host: ShardHost, scan: EntryScan) -> Iterator[bytes]:
    with scan:
        while chunk := scan.next_chunk():
            yield from encode_index_entries(host.shard.order, chunk)
