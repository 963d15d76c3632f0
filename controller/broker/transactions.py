"""The methods about transactions: any broker serves any transaction."""

from __future__ import annotations

from controller.broker.desk import Desk
from controller.broker.messages import description
from controller.errors import InvalidRequest
from controller.pb import broker_pb2 as pb
from txn.model.header import Header
from txn.model.ids import TxnId


class Transactions:
    """Begin, end, describe."""

    def __init__(self, desk: Desk) -> None:
        self._coordinator = desk.host.coordinator
        self._clock = desk.clock
        self._metrics = desk.metrics

    async def begin(self, request: pb.BeginTransactionRequest, principal: str | None) -> pb.BeginTransactionResponse:
        """A new transaction of that principal."""
        begun_ms = self._clock.wall_ms()
        txn_id = await self._coordinator.begin(request.timeout_ms, owner=principal)
        self._metrics.begun.inc()
        return pb.BeginTransactionResponse(txn_id=str(txn_id), deadline_ms=begun_ms + request.timeout_ms)

    async def end(self, request: pb.EndTransactionRequest, principal: str | None) -> pb.TransactionDescription:
        """Commits or aborts."""
        txn_id = TxnId.parse(request.txn_id)
        began_s = self._clock.monotonic_s()
        header = await self._decide(txn_id, request.outcome, principal)
        self._metrics.end_seconds.observe(self._clock.monotonic_s() - began_s)
        assert header.cause is not None, "it has ended"
        self._metrics.ended.labels(header.state.value.lower(), header.cause.value).inc()
        return description(txn_id, header)

    async def _decide(self, txn_id: TxnId, outcome: pb.Outcome.ValueType, principal: str | None) -> Header:
        if outcome == pb.COMMIT:
            return await self._coordinator.commit(txn_id, principal=principal)
        if outcome == pb.ABORT:
            return await self._coordinator.abort(txn_id, principal=principal)
        raise InvalidRequest(f"transaction {txn_id} can be ended with COMMIT or ABORT, not with {outcome}")

    async def describe(
        self, request: pb.DescribeTransactionRequest, principal: str | None
    ) -> pb.TransactionDescription:
        """What is known of it; everybody may ask."""
        txn_id = TxnId.parse(request.txn_id)
        return description(txn_id, await self._coordinator.describe(txn_id))
