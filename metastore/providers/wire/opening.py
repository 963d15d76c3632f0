"""Opening a store: finding its shards, and learning what kind of server has them."""

from __future__ import annotations

from metastore.interface.errors import StoreFailed
from metastore.interface.store import MetadataStore
from metastore.interface.urls import Environment
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.wire.caller import Caller
from metastore.providers.wire.channels import Channels
from metastore.providers.wire.failures import MethodUnknown
from metastore.providers.wire.patience import Backoff
from metastore.providers.wire.plain import MakeWatch
from metastore.providers.wire.plain_store import PlainStore
from metastore.providers.wire.protocol import DESCRIBE, to_wire
from metastore.providers.wire.settings import Settings
from metastore.providers.wire.store import WireStore
from metastore.providers.wire.topology import Topology
from metastore.providers.wire.watches import Watches

_SORTINGS = {pb.HIERARCHICAL: "hierarchical", pb.NATURAL: "natural"}


async def open_settings(settings: Settings, environment: Environment, make_watch: MakeWatch) -> MetadataStore:
    """A store that is connected to its server."""
    clock, choice = environment.clock, environment.random
    channels = Channels(settings.security, clock)
    topology = Topology(channels, settings.addresses, settings.namespace, clock, Backoff(choice))
    caller = Caller(topology, channels, clock, choice, settings.request_timeout_s)
    try:
        await topology.open(settings.request_timeout_s)
        service = await _describe(caller, settings.namespace)
    except BaseException:
        await topology.close()
        await channels.close()
        raise
    if service is None:
        return PlainStore(caller, settings, make_watch)
    watches = Watches(caller, settings.namespace, service)
    together_max = service.limits.transactions_per_call_max
    return WireStore(caller, settings, _SORTINGS[service.key_sorting], watches, together_max)


async def _describe(caller: Caller, namespace: str) -> pb.DescribeResponse | None:
    """What our service says of itself; None where the server is a plain Oxia."""
    request = pb.DescribeRequest(namespace=to_wire(namespace)).SerializeToString()
    shard_id = caller.topology.shards.shards[0].shard_id
    try:
        reply = await caller.unary(shard_id, DESCRIBE, request, f"describe namespace {namespace!r}", repeatable=True)
    except MethodUnknown:
        return None
    service = pb.DescribeResponse.FromString(reply.message)
    if service.key_sorting not in _SORTINGS:
        raise StoreFailed(f"the server sorts keys in way {service.key_sorting}: use a newer version of this library")
    return service
