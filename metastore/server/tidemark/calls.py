"""The calls of this service that answer and end: Describe, Transact, TransactMany, IndexScan."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import metastore
from metastore.directory import Namespace
from metastore.engine import limits
from metastore.engine.errors import ConditionsFailed
from metastore.engine.operations import Range
from metastore.engine.scan import EntryScan
from metastore.engine.shard import Shard
from metastore.pb import tidemark_pb2
from metastore.server.calls import OneRequest, Report, StreamedAnswer
from metastore.server.errors import invalid, rpc_error
from metastore.server.host import Host, ShardHost
from metastore.server.tidemark.messages import (
    TransactionOrder,
    decode,
    encode_answer,
    encode_index_entries,
    encode_refused,
)
from metastore.server.tidemark.opening import WATCH_CREDIT_MAX
from metastore.server.tidemark.progress import PROGRESS_INTERVAL_S
from metastore.server.tidemark.watch_stream import WATCHES_PER_STREAM_MAX
from metastore.server.transport import Call
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
            transactions_per_call_max=limits.TRANSACTIONS_PER_CALL_MAX,
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


class TransactManyCall(OneRequest):
    """TransactMany: several on one shard, each by itself."""

    def __init__(self, call: Call, host: Host, report: Report) -> None:
        super().__init__(call, host, report)
        self._lock = threading.Lock()
        self._answers: list[bytes] = []
        self._unanswered = 0

    def handle(self, message: bytes) -> None:
        request = decode(tidemark_pb2.TransactManyRequest, message)
        shard_id = request.shard if request.HasField("shard") else None
        shard = self.host.shard(shard_id).shard
        if not 1 <= len(request.transactions) <= limits.TRANSACTIONS_PER_CALL_MAX:
            raise invalid(
                f"{len(request.transactions)} transactions: from 1 to {limits.TRANSACTIONS_PER_CALL_MAX} are allowed "
                "in one call (TRANSACTIONS_PER_CALL_MAX)"
            )
        if any(each.HasField("shard") and each.shard != shard_id for each in request.transactions):
            raise invalid(f"all transactions of one call are on its shard, {shard_id}")
        self._unanswered = len(request.transactions)
        self._answers = [b""] * self._unanswered
        for place, each in enumerate(request.transactions):
            self._begin(shard, place, each)

    def _begin(self, shard: Shard, place: int, request: tidemark_pb2.TransactRequest) -> None:
        try:
            order = TransactionOrder(request)
            shard.submit_transact(order.transaction, partial(self._end, place, order))
        except Exception as error:  # of this one: the others have nothing to do with it
            if self._answers[place]:
                raise  # it was applied and answered; what failed came behind that
            self._report_unforeseen(error)
            self._settle(place, encode_refused())

    def _end(self, place: int, order: TransactionOrder, result: Any, error: BaseException | None) -> None:
        if not isinstance(error, ConditionsFailed):
            self._report_unforeseen(error)
        self._settle(place, encode_answer(order, result, error))

    def _report_unforeseen(self, error: BaseException | None) -> None:
        if error is not None and rpc_error(error) is None:
            self.report(self.call.method, error)

    def _settle(self, place: int, answer: bytes) -> None:
        """One is answered; whoever answers the last one replies to the call."""
        self._answers[place] = answer
        with self._lock:
            self._unanswered -= 1
            is_last = not self._unanswered
        if is_last:
            self.call.reply(b"".join(self._answers))


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
