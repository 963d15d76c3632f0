"""The gRPC front: an event-driven server on grpcio's own core.

grpcio brings two servers. One spends a thread on every open stream; the other a turn of the asyncio loop on
every message, starves while the loop waits for a disk, and hides the authority of a call. Here a call is an
object that can be answered from any thread (`Call`), its handler is told what happens to it (`Handler`),
and a message costs what the core costs and little more.

It promises: the callbacks of one call never overlap and come in order, the last of them exactly once;
messages are received one at a time, and only as fast as the handler returns; what was sent goes out in
order, and how much of it still waits is known, so that a producer can stop (`unsent_count`, `on_drained`);
a call whose client takes nothing can be ended all the same (`cancel`, where `finish` waits for the client);
a handler that fails ends its own call only; after `stop` nothing runs.

It refuses: to know what the bytes mean, to queue what is received, to bound what is sent (the producer has
to), to pass an event from thread to thread. Callbacks should not wait for a disk: a message is received
only after the one before has been dealt with, so a group commit that runs in a callback never gets a group.
Defer it (`GrpcServer.defer`).

Start reading with `handler.py` and `call.py`; `server.py` opens ports and takes calls, `crew.py` has the
threads, `core.py` is the door to grpcio.
"""

from metastore.server.transport.call import Call
from metastore.server.transport.handler import Handler
from metastore.server.transport.server import GrpcServer, Router, TransportError

__all__ = ["Call", "GrpcServer", "Handler", "Router", "TransportError"]
