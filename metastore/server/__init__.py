"""The service: shards behind Oxia's wire protocol, as one process or several.

The idea. Every call is a small object that is told what happens to it and answers from whichever thread is at hand
(`transport`). A write is decoded and handed to its shard; when all messages that are there have been taken in, the
thread that took them drives the round, so that a lone write needs no other thread, and many form groups. What the
shard stores is in the form of the wire, so an answer is cut and joined from stored bytes.

What it promises.
- Unmodified Oxia clients in Python, Java and Go find what they expect: both service names, the texts and details of
  errors, the order of answers, the behaviour of streams. Recorded conversations with a real server are its tests.
- One slow reader slows nobody else. Streams are produced a few messages ahead of their reader and no further.
- Bad input gets a status that names what is wrong, and changes nothing. No bytes that a client sends crash it.
- SIGTERM ends it within five seconds, each stream with the status that its clients understand. SIGKILL ends it too,
  and loses nothing that was acknowledged.

What it refuses. To listen on a network unprotected without being told so; to serve a data directory that is in use,
damaged, newer, or of another shape than the flags say. It replicates nothing.

Start reading at `serve` (from flags to a running service), then `process` (what one process consists of), `router`
(which handler a call gets), `calls` and `streams` (the handlers), `wire` (bytes), `errors` (statuses). `tidemark` is
the second service of the port, with what Oxia's lacks. `workers` has the several processes, `supervised`
what a process owes to one that keeps it, `housekeeper` what is due
from time to time.
"""

import os

# By default gRPC's core gives readable sockets to threads of its own, and these wake the poller for each message:
# half of all server time, as measured. Without this experiment the poller reads and writes itself. The core looks at
# the variable when grpc is first imported; if that has happened before, all is slower and otherwise the same.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")
