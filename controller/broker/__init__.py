"""The broker: one process that hosts segments and coordinates transactions, behind a gRPC service.

The idea. Everything that decides lies in `txn`. Here is what a process adds to it: a port, the store and the logs that
belong to it, and for each stream the few tasks that carry messages between a client and a segment. A message through
gRPC's event loop costs far more than what is done with it, so streams carry many entries in one message, both ways: a
producer's answers, a consumer's deliveries and the answers to its acknowledgements are each sent by one task, which
takes all that has gathered while the message before was on its way.

What it promises. Answers come in order, and what they say is durable. A client that does not take what comes is sent no
more, and one that sends more than it may is refused by name; no number of clients takes more memory than limits allow
(`limits`). Bytes that are no message are refused, and change nothing. At SIGTERM streams end with an error that sends
their clients elsewhere, and the segments are let go at once.

What it refuses. To listen on a network unprotected without being told so. It does not forward: a call about a segment
that another broker owns, or a topic that it leads, gets that one's address. It trusts who has a token with all
segments; transactions are their owners'.

    broker        `Broker`: the whole of it, in any process; config: what it may be told; limits
    serve, command   `tidemark broker`
    front         the port, health, reflection; security: tokens and TLS
    service       the methods; calls: what each has around it; desk: what all work with
    transactions, segments, subscriptions    calls with one answer
    produce, consume, read                   streams; usage: whose transactions they may use
    streams       all that are open, and how they are ended from elsewhere
    messages, deliveries, status             values and errors as messages
    topics                                   topics of many segments: a room of its own
    metrics, readings                        what is counted, and what is read off

Start reading at broker.py, then produce.py and consume.py.
"""

from controller.broker.broker import Broker
from controller.broker.config import BrokerConfig, ConfigError
from controller.broker.limits import BrokerLimits

__all__ = ["Broker", "BrokerConfig", "BrokerLimits", "ConfigError"]
