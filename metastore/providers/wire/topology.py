"""Where the shards are: the server's assignments, followed as they change, and corrected by what leaders say."""

from __future__ import annotations

import asyncio

import grpc.aio
from google.protobuf.message import DecodeError

from metastore.clock import Clock
from metastore.interface.errors import StoreError, StoreFailed, Unavailable
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire.channels import Channels, can_be_dialled
from metastore.providers.wire.failures import Failure, Fate, broken_protocol, connection_ended, failure_of
from metastore.providers.wire.patience import Backoff
from metastore.providers.wire.protocol import ASSIGNMENTS, to_wire
from metastore.providers.wire.routing import ShardMap, shard_map

DOUBT_INTERVAL_S = 0.25
"""A subscription that is younger than this is not made anew because somebody doubts what it says."""


class Topology:
    """The shards of a namespace and their leaders."""

    def __init__(
        self, channels: Channels, addresses: tuple[str, ...], namespace: str, clock: Clock, backoff: Backoff
    ) -> None:
        assert addresses
        self._channels = channels
        self._addresses = addresses
        self._namespace = namespace
        self._clock = clock
        self._backoff = backoff
        self._attempts = 0
        self._map: ShardMap | None = None
        self._hints: dict[int, str] = {}
        self._changed = asyncio.Event()
        self._subscription: asyncio.Task[Failure] | None = None
        self._subscribed_s = clock.monotonic_s()
        self._follower: asyncio.Task[None] | None = None
        self.trouble = "no server has answered yet"
        """What went wrong last, for messages."""
        self._refusal: StoreError | None = None

    async def open(self, timeout_s: float) -> None:
        """Returns when the shards are known; raises why they cannot be."""
        self._follower = asyncio.create_task(self._follow(), name="shard assignments")
        try:
            async with asyncio.timeout(timeout_s):
                while self._map is None and self._refusal is None:
                    await self.wait_for_change()
        except TimeoutError:
            servers = ", ".join(self._addresses)
            raise Unavailable(
                f"no shard assignments from {servers} within {timeout_s:g} s: {self.trouble}: "
                "check the address, the server, and TLS on both sides"
            ) from None
        if self._refusal is not None:
            raise self._refusal

    @property
    def shards(self) -> ShardMap:
        """The shards as they are known now."""
        assert self._map is not None, "the topology was not opened"
        return self._map

    def leader(self, shard_id: int) -> str:
        """Where to ask for a shard; empty if nobody is known to lead it now."""
        hint = self._hints.get(shard_id)
        if hint is not None:
            return hint
        shard = self.shards.find(shard_id)
        return shard.leader if shard is not None else ""

    def correct(self, shard_id: int, failure: Failure) -> None:
        """Takes note that a leader was none, or could not be reached."""
        if failure.leader is not None and can_be_dialled(failure.leader):
            self._hints[shard_id] = failure.leader
            return
        self._hints.pop(shard_id, None)
        if self._subscription is not None and self._clock.monotonic_s() - self._subscribed_s >= DOUBT_INTERVAL_S:
            self._subscription.cancel()

    async def wait_for_change(self) -> None:
        """Returns when there is something new about the shards, or about why there is not."""
        await self._changed.wait()

    async def close(self) -> None:
        """Stops following."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.wait({self._follower})

    async def _follow(self) -> None:
        while True:
            address = self._addresses[self._attempts % len(self._addresses)]
            self._attempts += 1
            self._subscribed_s = self._clock.monotonic_s()
            self._subscription = asyncio.create_task(self._subscribe(address), name=f"assignments from {address}")
            try:
                await asyncio.wait({self._subscription})
            finally:
                self._subscription.cancel()
            if not self._subscription.cancelled():
                failure = self._subscription.result()
                self.trouble = f"{address}: {failure.text}"
                if failure.fate is Fate.REFUSED:
                    what = f"shard assignments of namespace {self._namespace!r} from {address}"
                    self._refusal = failure.refusal(what)
                self._announce()
            await asyncio.sleep(self._backoff.next_s())

    async def _subscribe(self, address: str) -> Failure:
        """Follows one server as long as it goes well."""
        request = pb.ShardAssignmentsRequest(namespace=to_wire(self._namespace)).SerializeToString()
        try:
            call = self._channels.answers(address, ASSIGNMENTS, request, None)
            while (message := await call.read()) is not grpc.aio.EOF:
                assert isinstance(message, bytes)
                self._take(shard_map(self._namespace, pb.ShardAssignments.FromString(message)))
        except grpc.aio.AioRpcError as failed:
            return failure_of(failed)
        except DecodeError:
            return broken_protocol(address, "sent shard assignments that cannot be read")
        except StoreError as error:
            return Failure(Fate.REFUSED, type(error), str(error), "see the server's configuration")
        return connection_ended(address)

    def _take(self, shards: ShardMap) -> None:
        for shard in shards.shards:
            if shard.leader and not can_be_dialled(shard.leader):
                raise StoreFailed(f"shard {shard.shard_id} is said to be at {shard.leader!r}, which is not HOST:PORT")
        self._map = shards
        self._hints.clear()
        self._refusal = None
        self._backoff.reset()
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
