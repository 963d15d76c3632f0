"""The greatest key of a sequence, followed across reconnects."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import grpc.aio
from google.protobuf.message import DecodeError

from metastore.interface.checks import shown
from metastore.interface.errors import Unavailable
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire.caller import CONNECT_ATTEMPT_S, Caller
from metastore.providers.wire.channels import ended_by_close
from metastore.providers.wire.failures import broken_protocol, connection_ended, failure_of
from metastore.providers.wire.protocol import SEQUENCE_UPDATES, from_wire, to_wire


async def follow_sequence(caller: Caller, shard_id: int, prefix: str) -> AsyncGenerator[str, None]:
    """The greatest key, if there is one, then each new one."""
    what = f"updates of sequence {shown(prefix)}"
    request = pb.GetSequenceUpdatesRequest(shard=shard_id, key=to_wire(prefix)).SerializeToString()
    backoff = caller.backoff()
    last = ""
    while True:
        try:
            leader = await caller.reach(shard_id, CONNECT_ATTEMPT_S)
        except Unavailable:
            continue  # a watch waits for its server for as long as it takes
        call = caller.channels.answers(leader, SEQUENCE_UPDATES, request, None)
        failure = connection_ended(leader)
        is_first = True
        try:
            while (key := await _next_key(call)) is not None:
                backoff.reset()
                # A stream begins with the greatest key there is: after a reconnect that is mostly an old one, and a
                # lesser one has only become the greatest.
                is_news = key > last if is_first else key != last
                is_first = False
                if key and is_news:
                    last = key
                    yield key
        except grpc.aio.AioRpcError as failed:
            failure = failure_of(failed)
        except DecodeError:
            failure = broken_protocol(leader, "sent a sequence update that cannot be read")
        finally:
            call.cancel()
        if not failure.is_passing:
            raise failure.refusal(f"{what} at {leader}")
        await caller.pause(shard_id, failure, caller.deadline(), backoff, what)


async def _next_key(call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> str | None:
    with ended_by_close():
        message = await call.read()
    if message is grpc.aio.EOF:
        return None
    assert isinstance(message, bytes)
    return from_wire(pb.GetSequenceUpdatesResponse.FromString(message).highest_sequence_key)
