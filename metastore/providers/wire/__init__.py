"""`oxia://host:port/namespace`: the contract over the network, with our service or a real Oxia behind it.

The idea. Messages are what a client pays for: one costs as much as dozens of operations. So an operation is sent at
once where nothing is under way to its shard, and where something is, those that come are gathered for the next request.
One caller alone waits for nobody; a thousand share the price. Everything runs on the event loop that opened the store.

    settings                the URL
    channels, failures      gRPC, by `metastore.dialling`; a failed call judged: what became of its request
    topology, routing       which shard a key lives on, and who leads it now
    caller, patience        single calls, deadlines, and when to ask again
    window, backlog, lane   how operations are let in, gathered and answered; `writes` and `reads` send them
    requests, answers       the protocol's messages
    scans                   lists and scans of several shards put into one order
    session                 a part on each shard, kept alive
    links, feed, watches    all watches of a server on one stream; what comes from one shard; our service's watches
    sharded_watch           one watch over all shards, however it is fed
    sequences
    transactions, transacting    requests made of operations; several of them in one call
    store                   the contract, of all these
    plain, plain_store, plain_index, plain_entries    what is otherwise on a plain Oxia, and what its servers do wrong
    emulation               a watch where the server has none

What it promises. A write is sent once. It is sent again only where the server has said that it did nothing; if its
answer is lost, the caller gets OutcomeUnknown and nobody guesses. Reads are asked again until their time is over. One
caller's bad request never hurts a neighbour's that went with it. Sessions and watches go on across broken connections
and restarts by themselves; a session is taken for lost before the server can end it.

What it refuses. It does not cache, and it does not resume a scan that broke off, which would then be of two states.
It keeps no order between operations that were begun at the same time, but for those on one key.

docs/clients.md is the guide for those who use it. Start reading at store.py, then lane.py and writes.py.
"""

from metastore.interface.store import MetadataStore
from metastore.interface.urls import Environment, StoreUrl
from metastore.providers.wire.emulation import Emulation
from metastore.providers.wire.opening import open_settings
from metastore.providers.wire.settings import settings_of

__all__ = ["open_wire"]


async def open_wire(url: StoreUrl, environment: Environment) -> MetadataStore:
    """The provider of `oxia://`."""
    return await open_settings(settings_of(url), environment, Emulation(environment.random))
