"""The other side of a subscription, as far as a test wants it: entries to deliver, and what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import grpc.aio
from client_api_broker import Context, error_message

from controller.client.batches import MAGIC, Content, pack
from controller.pb import broker_pb2 as pb
from txn.model.errors import TxnError


def entry(number: int, *payloads: bytes, acknowledged: bytes = b"", redeliveries: int = 0) -> pb.Delivery:
    """An entry with these messages."""
    send = pack([Content(each, {}) for each in payloads], range(number, number + len(payloads)))
    assert send.payload.startswith(MAGIC) == (len(payloads) > 1)
    delivery = delivery_of(send, acknowledged, redeliveries)
    delivery.position.entry = number
    return delivery


def delivery_of(send: pb.Send, acknowledged: bytes = b"", redeliveries: int = 0) -> pb.Delivery:
    """What was sent, as it is delivered."""
    return pb.Delivery(
        position=pb.Position(ledger=1, entry=2),
        payload=send.payload,
        properties=send.properties,
        producer="p",
        sequence_id=send.sequence_id,
        message_count=send.message_count,
        acknowledged=acknowledged,
        redeliveries=redeliveries,
        compression=send.compression,
        uncompressed_bytes=send.uncompressed_bytes,
        deliver_at_ms=send.deliver_at_ms,
        is_batch=send.is_batch,
    )


class Counter:
    """Delivers what it has from the beginning on every stream, as far as there are permits."""

    def __init__(self, *entries: pb.Delivery) -> None:
        self.entries = list(entries)
        self.term = 1
        self.opened: list[pb.OpenConsumer] = []
        self.permits: list[int] = []
        self.acknowledged: list[pb.Acknowledge] = []
        self.given_back: list[int] = []
        """Entries."""
        self.fails: list[TxnError | None] = []
        """What to say of the next acknowledgements."""
        self.is_silent = False
        """Acknowledgements are not answered."""
        self.news: asyncio.Queue[Any] = asyncio.Queue()
        """Responses that a test wants to be sent, or an error that ends the stream."""

    async def consume(self, requests: AsyncIterator[pb.ConsumeRequest], context: Context) -> AsyncIterator[Any]:
        """The stream of a consumer."""
        asking = asyncio.ensure_future(self._take_in(requests))
        news: asyncio.Queue[Any] = asyncio.Queue()
        self.news = news
        left = list(self.entries)
        room = 0
        try:
            while True:
                getting = asyncio.ensure_future(news.get())
                await asyncio.wait({getting, asking}, return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    getting.cancel()
                    return
                said = getting.result()
                if isinstance(said, grpc.StatusCode):
                    await context.abort(said, "the connection breaks")
                if isinstance(said, pb.Delivery):
                    left.append(said)
                elif isinstance(said, int):
                    room += said
                else:
                    yield said
                now, left = left[:room], left[room:]
                room -= len(now)
                if now:
                    yield pb.ConsumeResponse(deliveries=pb.Deliveries(deliveries=now))
        finally:
            asking.cancel()

    async def _take_in(self, requests: AsyncIterator[pb.ConsumeRequest]) -> None:
        async for request in requests:
            if request.HasField("open"):
                self.opened.append(request.open)
                self.news.put_nowait(pb.ConsumeResponse(opened=pb.ConsumerOpened(term=self.term)))
            elif request.HasField("permit"):
                self.permits.append(request.permit.entries)
                self.news.put_nowait(request.permit.entries)
            elif request.HasField("negative_acknowledge"):
                self.given_back += [each.position.entry for each in request.negative_acknowledge.nacks]
            else:
                self.acknowledged.append(request.acknowledge)
                if not self.is_silent:
                    self._answer(request.acknowledge.request_id)
        await asyncio.sleep(0)

    def _answer(self, request_id: int) -> None:
        error = self.fails.pop(0) if self.fails else None
        told = pb.Acknowledged(request_id=request_id, error=None if error is None else error_message(error))
        self.news.put_nowait(pb.ConsumeResponse(acknowledgements=pb.Acknowledgements(acknowledged=[told])))

    def break_off(self) -> None:
        """The stream ends."""
        self.news.put_nowait(grpc.StatusCode.UNAVAILABLE)

    @property
    def acks(self) -> list[tuple[int, bool, list[int], int]]:
        """Entry, whether cumulative, messages of the batch, its size: of everything that was acknowledged."""
        return [
            (each.position.entry, each.is_cumulative, list(each.batch), each.batch_size)
            for request in self.acknowledged
            for each in request.acks
        ]


def payloads(messages: Sequence[Any]) -> list[bytes]:
    return [message.payload for message in messages]
