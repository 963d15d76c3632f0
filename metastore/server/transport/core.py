"""The door to grpcio's private core, and the only module of the project that touches it.

grpcio's public servers cost two to four times as much per message, and one of them hides the authority of a
call. Both stand on one extension module, `grpc._cython.cygrpc`; so does this server, in the way in which
grpcio's own synchronous server uses it. The names are private, and any release of grpcio may change them:
what is needed is listed here, checked at import, and used nowhere else.

Rules of the core, learnt the hard way:

- An operation object belongs to one batch; a second use frees its memory twice and kills the process. So
  operations are made here, fresh each time, and never leave this module.
- No batch may start once the completion queue is shut down: the core aborts the process.
- Batches that send and batches that receive may start at the same time, two of one kind may not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc
from grpc._cython import cygrpc

Metadata = Sequence[tuple[str, str | bytes]]
Event = Any  # what a completion queue yields; its `tag` is the function that takes it
CoreCall = Any
Tag = Callable[[Event], None]

NEEDED_NAMES = (
    "Call.cancel",
    "Call.peer",
    "Call.start_server_batch",
    "CallError.ok",
    "CompletionQueue.poll",
    "CompletionQueue.shutdown",
    "CompletionType.queue_timeout",
    "ReceiveCloseOnServerOperation",
    "ReceiveMessageOperation.message",
    "SendInitialMetadataOperation",
    "SendMessageOperation",
    "SendStatusFromServerOperation",
    "Server.add_http2_port",
    "Server.cancel_all_calls",
    "Server.destroy",
    "Server.register_completion_queue",
    "Server.request_call",
    "Server.shutdown",
    "Server.start",
    "auth_context",
)
NO_FLAGS = 0
PAST = 0.0  # a deadline in seconds since the epoch


def require_names(module: Any) -> None:
    """Raises ImportError unless the module has all that is needed of a core."""
    missing = []
    for path in NEEDED_NAMES:
        found = module
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is None:
            missing.append(path)
    if missing:
        raise ImportError(
            f"grpcio {grpc.__version__} cannot be used: its core has no {', '.join(missing)}; "
            "install a grpcio version that this release supports"
        )


require_names(cygrpc)


class CoreError(Exception):
    """The core refused a batch; nothing of it was done."""


class Status(NamedTuple):
    """How a call ends."""

    code: grpc.StatusCode
    details: str = ""
    trailing_metadata: Metadata = ()


class CoreServer:
    """A server of the core with its completion queue."""

    def __init__(self, arguments: Sequence[tuple[str, int | str]]) -> None:
        self._queue = cygrpc.CompletionQueue()
        self._server = cygrpc.Server(arguments, False)
        self._server.register_completion_queue(self._queue)
        self.poll: Callable[[], Event] = self._queue.poll  # an event whose tag is None: shut down and empty
        self.start: Callable[[], None] = self._server.start
        self.cancel_all_calls: Callable[[], None] = self._server.cancel_all_calls

    def add_port(self, address: str, credentials: Any | None) -> int:
        """The port that was bound, 0 when the core could not."""
        if credentials is None:
            port = self._server.add_http2_port(address.encode())
        else:
            port = self._server.add_http2_port(address.encode(), credentials._credentials)
        return int(port)

    def poll_ready(self) -> Event | None:
        """An event that is ready now, if any."""
        event = self._queue.poll(PAST)
        return None if event.completion_type == cygrpc.CompletionType.queue_timeout else event

    def request_call(self, tag: Tag) -> None:
        """Asks for one new call."""
        self._server.request_call(self._queue, self._queue, tag)

    def begin_shutdown(self, tag: Tag) -> None:
        """Closes the ports, refuses new calls; the tag comes when the last connection is gone."""
        self._server.shutdown(self._queue, tag)

    def close_queue(self) -> None:
        """Lets the pollers run out of events; after the tag of `begin_shutdown`, with no batch under way."""
        self._queue.shutdown()

    def destroy(self) -> None:
        """After the last poller has gone."""
        self._server.destroy()


def start_receiving(call: CoreCall, tag: Tag) -> None:
    """Asks for the next message."""
    _start(call, (cygrpc.ReceiveMessageOperation(NO_FLAGS),), tag)


def received_message(event: Event) -> bytes | None:
    """What `start_receiving` brought; None when nothing more will come."""
    message: bytes | None = event.batch_operations[0].message()
    return message


def start_watching(call: CoreCall, tag: Tag) -> None:
    """Asks to be told when the call is over, however it ends."""
    _start(call, (cygrpc.ReceiveCloseOnServerOperation(NO_FLAGS),), tag)


def start_sending(call: CoreCall, message: bytes, with_headers: bool, tag: Tag) -> None:
    """Sends one message; the next may follow when this has completed."""
    send = cygrpc.SendMessageOperation(message, NO_FLAGS)
    if with_headers:
        _start(call, (cygrpc.SendInitialMetadataOperation(None, NO_FLAGS), send), tag)
    else:
        _start(call, (send,), tag)


def start_finishing(
    call: CoreCall, message: bytes | None, status: Status, with_headers: bool, with_watch: bool, tag: Tag
) -> None:
    """Sends the status, and the last message if there is one; can also do what `start_watching` does."""
    code, details, trailing_metadata = status
    operations = [cygrpc.SendStatusFromServerOperation(trailing_metadata, code.value[0], details, NO_FLAGS)]
    if message is not None:
        operations.append(cygrpc.SendMessageOperation(message, NO_FLAGS))
    if with_headers:
        operations.append(cygrpc.SendInitialMetadataOperation(None, NO_FLAGS))
    if with_watch:
        operations.append(cygrpc.ReceiveCloseOnServerOperation(NO_FLAGS))
    _start(call, tuple(operations), tag)


def cancel(call: CoreCall, code: grpc.StatusCode, details: str) -> None:
    """Ends the call now, past all that flow control holds back: batches under way fail, and whoever watches is told.

    A client that has no status yet gets this one. It has no trailing metadata: the core cannot send any here.
    """
    error = call.cancel(code.value[0], details.encode())
    if error != cygrpc.CallError.ok:
        raise CoreError(f"the core refused to cancel a call with error {error}")


def peer(call: CoreCall) -> str:
    """The address at the other end, like `ipv4:127.0.0.1:40000`."""
    return str(call.peer().decode("latin-1"))


def auth_context(call: CoreCall) -> dict[str, list[bytes]]:
    """What TLS has proved of the peer."""
    return {key.decode("latin-1"): values for key, values in cygrpc.auth_context(call).items()}


def _start(call: CoreCall, operations: tuple[Any, ...], tag: Tag) -> None:
    error = call.start_server_batch(operations, tag)
    if error != cygrpc.CallError.ok:
        names = ", ".join(type(operation).__name__ for operation in operations)
        raise CoreError(f"the core refused the batch {names} with error {error}")
