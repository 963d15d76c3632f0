"""The client: how applications produce, consume and transact. `controller.client.blocking` is the same without `await`.

The idea. Whatever is sent has a number, and whatever is acknowledged may be acknowledged again: so every request can
be repeated, and a client repeats it until it has an answer or no time. Streams last: behind whatever sends to, receives
from or reads a segment there is one gRPC stream after another, to whoever owns it at the moment. What a broker says of
its neighbours is a hint, and a wrong hint costs a redirect.

    client, embedded           `connect(url)`; `embedded(url)`, which has a broker in this process; `Client`
    transaction, scope         `Transaction` and what may become of it; the block that ends it
    topics                     topics: administration, layouts as they change, and producers
    consumers                  consumers of topics and of namespaces: streams, queues, checkpoints
    segment, segments          sending to, receiving from and reading single segments; segments as wholes
    member                     what is open until it is closed
    caller, routes, lookout    single calls, the way to whoever can answer them; which brokers there are
    connections, failures, protocol, settings     gRPC, the URL, TLS and tokens; errors as the types that they were
    batches, compression, values, names, confirmations, deadlines, errors
    blocking                   the facade for threads without a loop

What it promises. A confirmed message is stored once, however often it had to be sent, and a producer's messages are in
the order in which they were sent. A transaction's outcome is told truthfully: an answer that was lost is asked for
again. A send that had to go to another owner is no failure; one that failed keeps its transaction from committing. What
is wrong is refused before it leaves. All that waits is bounded by a limit with a name.

What it refuses. It does not cache, it does not guess, and it remembers nothing of acknowledgements that were answered:
so an abort has nothing to roll back here. It does not hold messages back that were delivered twice: who needs each one
once acknowledges in a transaction.

Start reading at client.py, then transaction.py, segment and topics.
"""

from controller.client.blocking import BlockingClient
from controller.client.client import Client, connect
from controller.client.compression import Compression
from controller.client.confirmations import Confirmation
from controller.client.consumers import (
    Checkpoint,
    CheckpointConsumer,
    CheckpointGroupConsumer,
    DeadLetters,
    NamespaceQueueConsumer,
    NamespaceStreamConsumer,
    QueueConsumer,
    QueueMessage,
    QueueOptions,
    RedeliveryBackoff,
    StreamConsumer,
    StreamMessage,
    TopicMessage,
)
from controller.client.embedded import embedded
from controller.client.errors import (
    AckTooLate,
    AckUnconfirmed,
    BrokerFailed,
    BrokersUnavailable,
    ClientBusy,
    ClientClosed,
    EndReached,
    InvalidRequest,
    MessageTooLarge,
    SendUnconfirmed,
)
from controller.client.segment.consumer import SegmentConsumer
from controller.client.segment.producer import SegmentProducer, SegmentProducerOptions
from controller.client.segment.reader import SegmentReader
from controller.client.segments import Segments, SegmentStats, SubscriptionStats
from controller.client.topics.admin import Topics
from controller.client.topics.descriptions import Policy, TopicStats, TopicSubscriptionKind
from controller.client.topics.ids import TopicMessageId, TopicSent
from controller.client.topics.layouts import TopicState
from controller.client.topics.namespaces import TopicSetChange
from controller.client.topics.producer import Access, Producer, ProducerOptions
from controller.client.transaction import Transaction, TransactionState
from controller.client.values import (
    EARLIEST,
    LATEST,
    Edge,
    Message,
    MessageId,
    Sent,
    SubscriptionKind,
)
from txn.model.ids import TxnId
from txn.model.position import Position

__all__ = [
    "EARLIEST",
    "LATEST",
    "Access",
    "AckTooLate",
    "AckUnconfirmed",
    "BlockingClient",
    "BrokerFailed",
    "BrokersUnavailable",
    "Checkpoint",
    "CheckpointConsumer",
    "CheckpointGroupConsumer",
    "Client",
    "ClientBusy",
    "ClientClosed",
    "Compression",
    "Confirmation",
    "DeadLetters",
    "Edge",
    "EndReached",
    "InvalidRequest",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "NamespaceQueueConsumer",
    "NamespaceStreamConsumer",
    "Policy",
    "Position",
    "Producer",
    "ProducerOptions",
    "QueueConsumer",
    "QueueMessage",
    "QueueOptions",
    "RedeliveryBackoff",
    "SegmentConsumer",
    "SegmentProducer",
    "SegmentProducerOptions",
    "SegmentReader",
    "SegmentStats",
    "Segments",
    "SendUnconfirmed",
    "Sent",
    "StreamConsumer",
    "StreamMessage",
    "SubscriptionKind",
    "SubscriptionStats",
    "TopicMessage",
    "TopicMessageId",
    "TopicSent",
    "TopicSetChange",
    "TopicState",
    "TopicStats",
    "TopicSubscriptionKind",
    "Topics",
    "Transaction",
    "TransactionState",
    "TxnId",
    "connect",
    "embedded",
]
