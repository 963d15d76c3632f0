"""`zk://host:port,host:port/path`: the contract over a real ZooKeeper, through kazoo.

The idea. ZooKeeper has transactions over many znodes, and nothing else that the contract asks for: no ranges, no
indexes, no sequences, no reads of one state, and watches that say that something happened but not what. All of that
follows from one more znode. Every write compares and sets the *head*, which counts the writes, and adds an entry to a
*change log* that holds what the write replaced. Then

- a write that was prepared at a head and is committed at that head has seen everything: conditions, sequences and
  index entries need no further care, and whoever was slower prepares again;
- a scan reads in its own time and takes back what the log says was written since: so it sees one state;
- a watch reads the log: so it tells every change, resumes exactly, and queues nothing.

What it promises. The whole contract, by the suite of tests/conformance/store. A write is there whole, with its index
entries and its place in every list, or not at all, at whatever instant its process dies. If ZooKeeper's answer is
lost, the log tells what became of the write.

What it refuses. Speed: each write is a round trip to read and one to commit, writes of one process go together, and
writes of several processes take turns. Large values and large transactions: ZooKeeper takes a megabyte at a time. It
needs ZooKeeper 3.5 or later, and the path to itself.

Start reading at `layout` and `head`, then `write` and `plans` for what a write does to the tree, `drafting` and
`writer` for how it gets there, `reader` for snapshots, and `changelog` and `watch` for what is told of them. `view`
says how pure functions read a tree that is somewhere else. docs/zookeeper.md has the costs and the limits.
"""

from __future__ import annotations

from metastore.interface import Environment, StoreUrl
from metastore.providers.zookeeper.opening import open_settings
from metastore.providers.zookeeper.settings import Settings
from metastore.providers.zookeeper.store import ZookeeperStore

__all__ = ["ZookeeperStore", "open_zookeeper"]


async def open_zookeeper(url: StoreUrl, environment: Environment) -> ZookeeperStore:
    """The provider of `zk://`."""
    return await open_settings(Settings.of(url), environment)
