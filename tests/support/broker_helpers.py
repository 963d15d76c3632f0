"""Brokers under test, in this process or as one of their own, and a client that says just what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from controller.broker import Broker, BrokerConfig, BrokerLimits
from controller.pb import broker_pb2 as pb
from metastore.interface import MetadataStore, open_store
from support.ports import LOOPBACK
from support.server import EAGER_CHANNEL
from txn.hosting import HostOptions

SERVICE = "tidemark.broker.v1.Broker"
PROJECT_ROOT = Path(__file__).resolve().parents[3]
ANSWER_WITHIN_S = 60.0
START_WITHIN_S = 60.0
STOP_WITHIN_S = 30.0

M = TypeVar("M", bound=Message)
T = TypeVar("T")

UNARY: dict[str, tuple[type[Message], type[Message]]] = {
    method.name: (getattr(pb, method.input_type.name), getattr(pb, method.output_type.name))
    for method in pb.DESCRIPTOR.services_by_name["Broker"].methods
    if not method.server_streaming
}


class Refused(Exception):
    """A call or stream that ended with an error; everything a client can read of it."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        super().__init__(error.details())
        self.code = error.code()
        self.text = error.details() or ""
        self.reason = self.domain = self.name = self.branch = ""
        self.metadata: dict[str, str] = {}
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                status = status_pb2.Status.FromString(value)
                assert (status.code, status.message) == (self.code.value[0], self.text)
                info = error_details_pb2.ErrorInfo()
                assert status.details[0].Unpack(info)
                self.reason, self.domain, self.metadata = info.reason, info.domain, dict(info.metadata)
                self.name, self.branch = self.metadata.pop("error"), self.metadata.pop("class")


class WireStream:
    """A stream as the wire has it."""

    def __init__(self, call: Any, answer: type[Message]) -> None:
        self.call = call
        self._answer = answer

    async def say(self, request: Message | bytes) -> None:
        data = request if isinstance(request, bytes) else request.SerializeToString()
        with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):  # it has ended: whoever reads is told how
            await self.call.write(data)

    async def half_close(self) -> None:
        await self.call.done_writing()

    async def next(self) -> Any:
        """The next response; None at the end."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                data = await self.call.read()
        except grpc.aio.AioRpcError as error:
            raise Refused(error) from None
        if data is grpc.aio.EOF:
            if await self.call.code() is not grpc.StatusCode.OK:
                ended = self.call
                raise Refused(
                    grpc.aio.AioRpcError(
                        await ended.code(),
                        await ended.initial_metadata(),
                        await ended.trailing_metadata(),
                        await ended.details(),
                    )
                )
            return None
        return self._answer.FromString(data)

    async def refusal(self) -> Refused:
        """How the stream ends, which has to be with an error; what comes before is passed over."""
        try:
            while await self.next() is not None:
                pass
        except Refused as refused:
            return refused
        raise AssertionError("the stream ended without an error")


class WireClient:
    """Calls by the names of their methods, without any help."""

    def __init__(
        self,
        address: str,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        options: Sequence[tuple[str, int]] = EAGER_CHANNEL,
    ) -> None:
        self.channel = (
            grpc.aio.insecure_channel(address, options=options)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, options=options)
        )
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)

    async def call(self, method: str, **fields: Any) -> Any:
        """A unary call; Refused if it fails."""
        request, answer = UNARY[method]
        return answer.FromString(await self.call_raw(f"/{SERVICE}/{method}", request(**fields).SerializeToString()))

    async def call_raw(self, path: str, data: bytes) -> bytes:
        call: Any = self.channel.unary_unary(path)
        try:
            return bytes(await call(data, timeout=ANSWER_WITHIN_S, metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            raise Refused(error) from None

    def stream(self, method: str, answer: type[Message]) -> WireStream:
        return WireStream(self.channel.stream_stream(f"/{SERVICE}/{method}")(metadata=self._metadata), answer)

    async def produce(self, segment: str, producer: str = "") -> WireStream:
        """A producer's stream that is open."""
        stream = self.stream("Produce", pb.ProduceResponse)
        await stream.say(pb.ProduceRequest(open=pb.OpenProducer(segment=segment, producer=producer)))
        assert (await stream.next()).HasField("opened")
        return stream

    async def consume(
        self, segment: str, subscription: str = "sub", permits: int = 1000, start: Any = pb.EARLIEST, **fields: Any
    ) -> WireStream:
        """A consumer's stream that is open."""
        stream = self.stream("Consume", pb.ConsumeResponse)
        bound = None if start is None else pb.Bound(edge=start)
        opening = pb.OpenConsumer(segment=segment, subscription=subscription, start=bound, **fields)
        await stream.say(pb.ConsumeRequest(open=opening))
        assert (await stream.next()).HasField("opened")
        if permits:
            await stream.say(pb.ConsumeRequest(permit=pb.Permit(entries=permits)))
        return stream

    def read(self, segment: str, **fields: Any) -> WireStream:
        """A reader's stream."""
        request = pb.ReadRequest(segment=segment, **fields)
        method: Any = self.channel.unary_stream(f"/{SERVICE}/Read")
        return WireStream(method(request.SerializeToString(), metadata=self._metadata), pb.ReadResponse)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.channel.close()


def sends(*payloads: str, first: int = 0, txn_id: str = "") -> pb.ProduceRequest:
    """Entries in one request, numbered one behind the other."""
    made = [
        pb.Send(sequence_id=number, payload=payload.encode(), txn_id=txn_id)
        for number, payload in enumerate(payloads, first)
    ]
    return pb.ProduceRequest(sends=pb.Sends(sends=made))


async def answers(stream: WireStream, count: int) -> list[pb.SendAnswer]:
    """So many answers, in however many responses."""
    found: list[pb.SendAnswer] = []
    while len(found) < count:
        found += (await stream.next()).answers.answers
    assert len(found) == count
    return found


async def published(client: WireClient, segment: str, *payloads: str, txn_id: str = "") -> list[pb.Position]:
    """Publishes these, and gives their positions."""
    stream = await client.produce(segment)
    await stream.say(sends(*payloads, txn_id=txn_id))
    found = await answers(stream, len(payloads))
    assert [each.error.name for each in found] == [""] * len(payloads)
    await stream.half_close()
    assert await stream.next() is None
    return [each.position for each in found]


async def deliveries(stream: WireStream, count: int) -> list[pb.Delivery]:
    """So many deliveries, in however many responses, and no others."""
    found: list[pb.Delivery] = []
    while len(found) < count:
        response = await stream.next()
        assert response is not None, f"the stream ended after {len(found)} deliveries"
        assert response.HasField("deliveries"), response
        found += response.deliveries.deliveries
    assert len(found) == count
    return found


def payloads(found: Iterable[pb.Delivery]) -> list[str]:
    return [each.payload.decode() for each in found]


async def read_all(client: WireClient, segment: str) -> list[str]:
    """What may be read of a segment now."""
    stream = client.read(segment)
    assert (await stream.next()).HasField("opened")
    found: list[str] = []
    while (response := await stream.next()) is not None:
        found += payloads(response.deliveries.deliveries)
    return found


def acknowledge(request_id: int, *positions: pb.Position, txn_id: str = "", **fields: Any) -> pb.ConsumeRequest:
    """Entries acknowledged."""
    acks = [pb.Ack(position=each, **fields) for each in positions]
    return pb.ConsumeRequest(acknowledge=pb.Acknowledge(request_id=request_id, acks=acks, txn_id=txn_id))


async def acknowledged(stream: WireStream, *request_ids: int) -> dict[int, str]:
    """The errors of these acknowledgements, by number; empty for a success."""
    found: dict[int, str] = {}
    while len(found) < len(request_ids):
        for each in (await stream.next()).acknowledgements.acknowledged:
            found[each.request_id] = each.error.name
    assert found.keys() == set(request_ids)
    return found


def config(directory: Path | None = None, store: str = "memory://", **settings: Any) -> BrokerConfig:
    """A broker on a port of its own; with a directory its logs are there, else in the store."""
    places = {"log": "metastore"} if directory is None else {"data_dir": directory / "segments"}
    defaults = {"store": store, "listen": f"{LOOPBACK}:0", "metrics_port": None, **places}
    return BrokerConfig(**{**defaults, **settings})


@asynccontextmanager
async def serving(
    configuration: BrokerConfig | None = None,
    *,
    limits: BrokerLimits | None = None,
    store: MetadataStore | None = None,
    options: HostOptions | None = None,
) -> AsyncIterator[tuple[Broker, WireClient]]:
    """A broker in this process, and a client of it."""
    broker = Broker(configuration or config(), limits=limits, store=store, options=options)
    async with broker, WireClient(broker.address) as client:
        yield broker, client


def run(scenario: Callable[[Broker, WireClient], Awaitable[None]], **settings: Any) -> None:
    """Runs a scenario with a broker of its own."""

    async def whole() -> None:
        async with serving(**settings) as (broker, client):
            await scenario(broker, client)

    asyncio.run(whole())


@asynccontextmanager
async def two_serving(url: str = "memory://", **settings: Any) -> AsyncIterator[Sequence[tuple[Broker, WireClient]]]:
    """Two brokers on one store."""
    async with await open_store(url) as store:
        first, second = (config(name=name, **settings) for name in ("first", "second"))
        async with serving(first, store=store) as one, serving(second, store=store) as two:
            yield one, two
