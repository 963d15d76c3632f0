"""A broker on the test's loop that answers as a test tells it to: for what a healthy one never does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn, Self

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2

from controller.client import Client
from controller.client.client import connected
from controller.client.settings import Settings
from controller.errors import branch_of, metadata_of
from controller.pb import broker_pb2 as pb
from metastore.clock import SystemClock
from metastore.coordination import Pace
from metastore.coordination.pace import Sleep
from support.ports import LOOPBACK
from txn.model.errors import TxnError

SEGMENT = "segment://public/default/orders/0000-ffff-0"
LIMITS = pb.Limits(
    request_bytes_max=1 << 20,
    entry_bytes_max=1 << 18,
    message_count_max=1_000,
    properties_max=10,
    name_bytes_max=64,
    sends_per_request_max=100,
    acks_per_request_max=10,
    acknowledges_under_way_max=4,
    permits_max=1_000,
    timeout_ms_max=600_000,
    streams_max=100,
)
REQUEST_TIMEOUT_S = 60.0
SERVICE = "/tidemark.broker.v1.Broker/"

Context = Any
"""grpc.aio's context of a call."""
Single = Callable[[Any, Context], Awaitable[Any]]
Stream = Callable[[AsyncIterator[Any], Context], AsyncIterator[Any]]

REQUESTS: dict[str, Any] = {
    "DescribeBroker": pb.DescribeBrokerRequest,
    "BeginTransaction": pb.BeginTransactionRequest,
    "EndTransaction": pb.EndTransactionRequest,
    "DescribeTransaction": pb.DescribeTransactionRequest,
    "CreateSegment": pb.CreateSegmentRequest,
    "Seek": pb.SeekRequest,
    "SegmentStats": pb.SegmentStatsRequest,
}
STREAMS: dict[str, Any] = {"Produce": pb.ProduceRequest, "Consume": pb.ConsumeRequest}


class ScriptedBroker(grpc.GenericRpcHandler):
    """By itself it knows one segment, begins transactions, and ends them as it is asked to."""

    def __init__(self, name: str = "one") -> None:
        self.name = name
        self.calls: list[tuple[str, Any]] = []
        """Every request with one answer, as it came in."""
        self.single: dict[str, Single] = {
            "DescribeBroker": self._describe,
            "BeginTransaction": self._begin,
            "EndTransaction": self._end,
        }
        self.streams: dict[str, Stream] = {}
        self.read: Callable[[pb.ReadRequest, Context], AsyncIterator[pb.ReadResponse]] | None = None
        self.others: list[str] = []
        self._begun = 0
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"{LOOPBACK}:{self._server.add_insecure_port(f'{LOOPBACK}:0')}"

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop(None)

    async def stop(self) -> None:
        """It is gone."""
        await self._server.stop(None)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        name = str(details.method).removeprefix(SERVICE)
        if name == "Read" and self.read is not None:
            return grpc.unary_stream_rpc_method_handler(self.read, pb.ReadRequest.FromString, _serialized)
        if name in self.streams:
            return grpc.stream_stream_rpc_method_handler(self.streams[name], STREAMS[name].FromString, _serialized)
        if name in self.single:
            return grpc.unary_unary_rpc_method_handler(self._recorded(name), REQUESTS[name].FromString, _serialized)
        return None

    def _recorded(self, name: str) -> Single:
        async def answer(request: Any, context: Context) -> Any:
            self.calls.append((name, request))
            return await self.single[name](request, context)

        return answer

    def asked(self, name: str) -> list[Any]:
        """The requests of this name."""
        return [request for each, request in self.calls if each == name]

    async def _describe(self, request: pb.DescribeBrokerRequest, context: Context) -> pb.DescribeBrokerResponse:
        brokers = [pb.BrokerDescription(name=each, address=each) for each in (self.address, *self.others)]
        return pb.DescribeBrokerResponse(name=self.name, limits=LIMITS, brokers=brokers)

    async def _begin(self, request: pb.BeginTransactionRequest, context: Context) -> pb.BeginTransactionResponse:
        self._begun += 1
        return pb.BeginTransactionResponse(txn_id=f"md_0_{self._begun}", deadline_ms=request.timeout_ms)

    async def _end(self, request: pb.EndTransactionRequest, context: Context) -> pb.TransactionDescription:
        state = pb.COMMITTED if request.outcome == pb.COMMIT else pb.ABORTED
        return pb.TransactionDescription(txn_id=request.txn_id, state=state)


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


class Shelf:
    """What producers have stored, each number once."""

    def __init__(self, term: int = 1, entries_max: int = 100) -> None:
        self.term = term
        self.window = pb.Window(entries_max=entries_max, bytes_max=1 << 20)
        self.stored: list[pb.Send] = []
        self.arrived: list[int] = []
        """The numbers of all that came, resends included."""
        self.greatest_request = 0
        self.fails: dict[int, list[TxnError]] = {}
        """What to say of a number instead of storing it, one time after the other."""
        self.cuts: list[int] = []
        """How many entries a stream stores before it is cut without an answer to them; one stream after the other."""
        self.opened = 0
        self.holds = asyncio.Event()
        self.holds.set()
        """Answers wait for it."""

    async def produce(self, requests: AsyncIterator[pb.ProduceRequest], context: Context) -> AsyncIterator[Any]:
        """The stream of a producer."""
        self.opened += 1
        left = self.cuts.pop(0) if self.cuts else None
        async for request in requests:
            if request.HasField("open"):
                yield pb.ProduceResponse(opened=pb.ProducerOpened(term=self.term, window=self.window))
                continue
            sends = request.sends.sends
            self.greatest_request = max(self.greatest_request, len(sends))
            answers = []
            for send in sends:
                answers.append(self._answer(send))
                left = None if left is None else left - 1
                if left == 0:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection breaks")
            await self.holds.wait()
            yield pb.ProduceResponse(answers=pb.SendAnswers(answers=answers))

    def _answer(self, send: pb.Send) -> pb.SendAnswer:
        self.arrived.append(send.sequence_id)
        fails = self.fails.get(send.sequence_id)
        if fails:
            return pb.SendAnswer(sequence_id=send.sequence_id, error=error_message(fails.pop(0)))
        numbers = [each.sequence_id for each in self.stored]
        is_duplicate = send.sequence_id in numbers
        if not is_duplicate:
            self.stored.append(send)
            numbers.append(send.sequence_id)
        place = pb.Position(ledger=self.term, entry=numbers.index(send.sequence_id))
        return pb.SendAnswer(sequence_id=send.sequence_id, position=place, is_duplicate=is_duplicate)


def refusing(error: TxnError) -> Stream:
    """A stream that is ended when the first request comes."""

    async def end(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        async for _ in requests:
            await refused(context, error)
        yield pb.ProduceResponse()

    return end


async def refused(context: Context, error: TxnError) -> NoReturn:
    """Ends a call as brokers do."""
    told = {**metadata_of(error), "error": type(error).__name__, "class": branch_of(error)}
    status = status_pb2.Status()
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="IT", domain="tidemark.broker", metadata=told))
    trailers = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error), trailers)
    raise AssertionError("abort does not return")


def error_message(error: TxnError) -> pb.Error:
    """The same as a stream says it of one message."""
    branch = pb.ErrorClass.Value(branch_of(error).upper())
    metadata = metadata_of(error)
    return pb.Error(**{"class": branch}, name=type(error).__name__, message=str(error), metadata=metadata)


@contextmanager
def impatient(client: Client, request_timeout_s: float) -> Iterator[None]:
    """What it asks for in here has to fail in time; what has to succeed has its usual time, before and after."""
    usual_s = client._caller.request_timeout_s
    client._caller.request_timeout_s = request_timeout_s
    try:
        yield
    finally:
        client._caller.request_timeout_s = usual_s


async def client_of(
    *brokers: ScriptedBroker | str, request_timeout_s: float = REQUEST_TIMEOUT_S, sleep: Sleep = asyncio.sleep
) -> Client:
    """A client of these brokers, whose chance is always the same."""
    addresses = tuple(each if isinstance(each, str) else each.address for each in brokers)
    pace = Pace(SystemClock(), random.Random(0), sleep)
    return await connected(Settings(addresses, request_timeout_s=request_timeout_s), pace)
