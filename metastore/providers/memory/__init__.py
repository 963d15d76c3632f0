"""`memory://`: the contract in plain Python, and the instrument with which what stands on the contract is tested.

The idea. Everything a server would do is here in a few hundred synchronous lines (`data`, `shard`), and everything
that can go wrong between a client and a server can be made to happen, when a test says so and not otherwise:

    clock = ManualClock()
    data = MemoryData(shards=3, clock=clock)                     # what a server has
    ours, theirs = MemoryStore(data, Environment(clock)), MemoryStore(data, Environment(clock))  # two processes

    ours.script.fail("put", OutcomeUnknown("cut off"), prefix="/txn/", after=True)   # applied, and nobody told
    lost = ours.script.lose("put", prefix="/a")                  # nobody told, and applied at lost.arrive()
    gate = ours.script.hold("transact")                          # stops there, until gate.release()
    ours.line.cut(Part.HEARTBEATS)                               # a frozen process: its sessions run out
    clock.advance_ms(20_000)                                     # now its owner takes the session for lost...
    data.tick()                                                  # ...and now the store ends it
    data.expire(session.session_id)                              # or ends it while the owner believes in it
    theirs.line.cut(Part.WATCHES)                                # a watch breaks; mend() lets it go on
    data.trim()                                                  # and so it comes back too late: TokenExpired

What it promises. It passes the suite of tests/conformance/store like any other store. Where the contract leaves a
choice it takes the least comfortable one: a watch begins when it is first asked, not when it is made; shards are read
at different times; other tasks have a turn before and behind every call. It can be made to lack what some stores lack
(`lacks`), so that what must run on those can be tested here. It has no randomness and no time but its clock's: the
same test takes the same course each time. Only where that clock is the system's it ticks by itself.

What it refuses. Nothing survives the process. It does not try to be fast, and it does not imitate a server's limits
on concurrency.

URLs: `memory://` is a store of its own each time, `memory://name` one that the process shares by that name, for as
long as it lives. Options: `shards`, `key_sorting` (hierarchical, natural), `retention` (writes of each shard that are
kept for watches) and `lacks` (of transact, every_change, index_order, with commas).

Start reading at `store`, then `data` and `shard` for what a write does, `watch` for how changes are told, and
`script` and `line` for what can go wrong.
"""

from __future__ import annotations

import threading

from metastore.interface import Environment, InvalidUrl, StoreUrl
from metastore.providers.memory.data import RETENTION_WRITES, SHARDS_MAX, MemoryData
from metastore.providers.memory.line import Part
from metastore.providers.memory.script import Gate, LostWrites, Script
from metastore.providers.memory.session import MemorySession
from metastore.providers.memory.store import LACKS, MemoryStore

__all__ = ["Gate", "LostWrites", "MemoryData", "MemorySession", "MemoryStore", "Part", "Script", "open_memory"]

SORTINGS = ("hierarchical", "natural")

_shared: dict[str, MemoryData] = {}
_shared_lock = threading.Lock()


async def open_memory(url: StoreUrl, environment: Environment) -> MemoryStore:
    """The provider of `memory://`."""
    if url.port is not None or url.path:
        raise InvalidUrl(f"{url.text!r}: memory:// or memory://name, without a port and a path")
    url.check_options(["shards", "key_sorting", "retention", "lacks"])
    lacks = [lack for lack in url.options.get("lacks", "").split(",") if lack]
    if not set(lacks) <= set(LACKS):
        raise InvalidUrl(f"{url.text!r}: lacks={url.options['lacks']}: a memory store can lack {', '.join(LACKS)}")
    if not url.host:
        return MemoryStore(_new_data(url, environment), environment, lacks=lacks)
    with _shared_lock:
        data = _shared.get(url.host)
        if data is None:
            data = _shared[url.host] = _new_data(url, environment)
    _check_same(url, data)
    return MemoryStore(data, environment, lacks=lacks)


def _new_data(url: StoreUrl, environment: Environment) -> MemoryData:
    key_sorting = url.options.get("key_sorting", SORTINGS[0])
    if key_sorting not in SORTINGS:
        raise InvalidUrl(f"{url.text!r}: key_sorting={key_sorting}: one of {', '.join(SORTINGS)}")
    return MemoryData(
        shards=_number(url, "shards", 1, SHARDS_MAX),
        key_sorting=key_sorting,
        retention_writes=_number(url, "retention", RETENTION_WRITES, None),
        clock=environment.clock,
    )


def _check_same(url: StoreUrl, data: MemoryData) -> None:
    """Who joins others takes the store as it is; options that ask for another one are a mistake."""
    actual = {
        "shards": str(len(data.shards)),
        "key_sorting": data.order.name,
        "retention": str(data.retention_writes),
    }
    for name, value in actual.items():
        if url.options.get(name, value) != value:
            raise InvalidUrl(f"{url.text!r}: the store of that name has {name}={value}: leave the option out")


def _number(url: StoreUrl, name: str, default: int, maximum: int | None) -> int:
    text = url.options.get(name, str(default))
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1 or (maximum is not None and number > maximum):
        bounds = "1 and more" if maximum is None else f"1 to {maximum}"
        raise InvalidUrl(f"{url.text!r}: {name}={text}: a number is expected, {bounds}")
    return number
