"""Messages through a topic, and transactions over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from controller.client import EARLIEST, Client, ClientBusy, Confirmation, Producer, TopicMessage, TopicSent, Transaction
from controller.topics.errors import TopicExists, TopicNotFound
from loadtest.check.profiles import MESSAGES, TRANSACTIONS
from loadtest.check.works import Work
from metastore.commandline import UsageError

SEGMENTS = 4
PAYLOAD_BYTES = 256
NUMBER_BYTES = 8
KEYS = 1_000
RECEIVE_MAX = 1_000
OWNER = {"made-by": "tidemark check perf"}


class TopicWork(Work):
    """Work on a topic of its own, which does not split meanwhile."""

    def __init__(self, client: Client, prefix: str, discard: bool) -> None:
        self._client = client
        self._topic = prefix.strip("/").replace("/", "-")
        self._discard = discard
        self._open = AsyncExitStack()
        self._producer: Producer | None = None
        self._is_made = False

    async def prepare(self) -> None:
        if self._discard:
            await self._discard_leftover()
        try:
            await self._client.topics.create(self._topic, segments=SEGMENTS, properties=OWNER)
        except TopicExists:
            raise UsageError(
                f"there is a topic {self._topic}, of another check that runs, or of one that was killed: nothing was "
                "done; --discard removes it first, --prefix names another one"
            ) from None
        self._is_made = True
        await self._client.topics.set_policy(self._topic, {"enabled": False})
        self._producer = await self._open.enter_async_context(await self._client.producer(self._topic))

    async def _discard_leftover(self) -> None:
        try:
            found = await self._client.topics.describe(self._topic)
        except TopicNotFound:
            return
        if dict(found.record.properties) != OWNER:
            raise UsageError(
                f"topic {self._topic} was not made by this check: nothing was done; --prefix names another one"
            )
        await self._client.topics.delete(self._topic)

    async def clear(self) -> None:
        await self._open.aclose()
        if self._is_made:
            await self._client.topics.delete(self._topic)
            self._is_made = False

    async def _send(self, number: int, key: str, txn: Transaction | None = None) -> Confirmation[TopicSent]:
        """Sends, as soon as there is room."""
        assert self._producer is not None, "it is prepared"
        payload = number.to_bytes(NUMBER_BYTES, "big").ljust(PAYLOAD_BYTES, b"\0")
        while True:
            try:
                return self._producer.send(payload, key=key, txn=txn)
            except ClientBusy:
                await self._producer.wait_room()


class MessageWork(TopicWork):
    """Every piece is one message, sent and received."""

    kind = MESSAGES
    under_way_max = 2_000
    text = f"messages of {PAYLOAD_BYTES} bytes through a topic of {SEGMENTS} segments, from sending to receiving"

    def __init__(self, client: Client, prefix: str, discard: bool) -> None:
        super().__init__(client, prefix, discard)
        self._awaited: dict[int, asyncio.Future[TopicMessage]] = {}

    async def prepare(self) -> None:
        await super().prepare()
        await self._open.enter_async_context(self._receiving())

    async def do(self, number: int) -> str:
        arrival = self._awaited[number] = asyncio.get_running_loop().create_future()
        try:
            await (await self._send(number, f"key-{number % KEYS}"))
            return str((await arrival).id)
        finally:
            del self._awaited[number]

    @asynccontextmanager
    async def _receiving(self) -> AsyncIterator[None]:
        async with await self._client.checkpoint_consumer(self._topic, start=EARLIEST) as consumer:

            async def receive() -> None:
                while True:
                    for message in await consumer.receive_many(RECEIVE_MAX):
                        arrival = self._awaited.get(int.from_bytes(message.payload[:NUMBER_BYTES], "big"))
                        if arrival is not None and not arrival.done():
                            arrival.set_result(message)

            task = asyncio.create_task(receive())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.result()


class TransactionWork(TopicWork):
    """Every piece is a transaction: begun, two messages sent, committed."""

    kind = TRANSACTIONS
    under_way_max = 500
    text = f"transactions of two messages of {PAYLOAD_BYTES} bytes to a topic of {SEGMENTS} segments"

    async def do(self, number: int) -> str:
        async with self._client.transaction() as txn:
            for key in (number, number + KEYS // 2):
                await self._send(number, f"key-{key % KEYS}", txn)
        return str(txn.id)
