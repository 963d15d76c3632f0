"""The client without `await`: for scripts, notebooks, and threads that have no event loop.

    with BlockingClient.connect("tidemark://127.0.0.1:6650") as client, client.producer("orders") as producer:
        producer.send(b"one")

The idea. A blocking client is an ordinary one on an event loop of its own, in a thread of its own. So it works where
another loop is running already, and any number of threads may use it at once.

    client       `BlockingClient`
    loop         the loop, and what everything here has in common
    topics       producers of topics, and their administration
    consumers    consumers of topics and namespaces; consumer_doors: how they are opened
    segments     producers, consumers and readers of single segments; segments as wholes
    transactions transactions, and the block that ends one

What it promises. Every method has the name, the arguments, the result and the errors of its original; what was awaited
has happened when the call returns. Interrupting a call (Ctrl-C) cancels it, and the client goes on.

What it refuses. It adds nothing: there is no method here that the original does not have, but for sending without
waiting, which is `begin_send`.

Start reading at loop.py.
"""

from controller.client.blocking.client import BlockingClient
from controller.client.blocking.consumers import (
    BlockingCheckpointConsumer,
    BlockingCheckpointGroupConsumer,
    BlockingNamespaceQueueConsumer,
    BlockingNamespaceStreamConsumer,
    BlockingQueueConsumer,
    BlockingStreamConsumer,
)
from controller.client.blocking.loop import BlockingConfirmation
from controller.client.blocking.segments import (
    BlockingSegmentConsumer,
    BlockingSegmentProducer,
    BlockingSegmentReader,
    BlockingSegments,
)
from controller.client.blocking.topics import BlockingProducer, BlockingTopics
from controller.client.blocking.transactions import BlockingScope, BlockingTransaction

__all__ = [
    "BlockingCheckpointConsumer",
    "BlockingCheckpointGroupConsumer",
    "BlockingClient",
    "BlockingConfirmation",
    "BlockingNamespaceQueueConsumer",
    "BlockingNamespaceStreamConsumer",
    "BlockingProducer",
    "BlockingQueueConsumer",
    "BlockingScope",
    "BlockingSegmentConsumer",
    "BlockingSegmentProducer",
    "BlockingSegmentReader",
    "BlockingSegments",
    "BlockingStreamConsumer",
    "BlockingTopics",
    "BlockingTransaction",
]
