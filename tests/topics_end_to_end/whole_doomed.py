"""A process that takes the exclusive right to produce, and sends what it is told to until it is killed."""

from __future__ import annotations

import asyncio
import json
import sys

from controller.client import Access, Client, Producer, ProducerOptions, connect
from txn.model.errors import TxnError, TxnRetriable
from txn.segment.errors import ProducerFenced


async def run(url: str, topic: str) -> None:
    """Says that it has the right, and then of each message where it is; null: it could not be sent."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with await connect(url) as client:
        producer = await _opened(client, topic)
        print("granted", flush=True)
        sends = []
        async for line in lines:
            name, key = json.loads(line)
            sends.append(asyncio.create_task(_send(producer, name, key)))


async def _opened(client: Client, topic: str) -> Producer:
    while True:
        try:
            return await client.producer(topic, options=ProducerOptions(access=Access.FENCING))
        except (TxnRetriable, ProducerFenced):
            pass  # it has waited for as long as a request may take, or somebody else was faster


async def _send(producer: Producer, name: str, key: str) -> None:
    try:
        sent = await producer.send(name.encode(), key=key)
        print(json.dumps([name, str(sent.id)]), flush=True)
    except TxnError:
        print(json.dumps([name, None]), flush=True)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
