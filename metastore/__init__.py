"""Tidemark's metadata store: it speaks Oxia's wire protocol, and it keeps its records on one machine.

The idea. Clients see an Oxia server: the same two gRPC services, the same bytes, the same order of keys,
the same version ids, sessions, sequences, indexes and notifications. Behind that stands one rule: **the log
is the truth, and LMDB is its index**. A write is durable when the effects of its request, keys with their
new values and versions, are in an append-only, checksummed log and the log is synced. LMDB holds the same
records in order, some way behind; a background thread feeds it, and after a crash the rest of the log is
played into it. Notifications are read from the log as well, so nothing is written twice for them.

A shard works in **rounds**. A round takes every request that waits, applies the writes to a staging area in
memory, appends all their effects to the log at once, syncs once, and only then lets anybody see or be told
of them. That is why a hundred writers cost one sync, and why no reader ever meets what a power cut could
take back.

What it promises. An acknowledged write survives `kill -9` and, unless syncing is switched off, a power cut.
A write request is one atomic unit of its shard: all of it or nothing. A scan is a consistent snapshot.
Offsets, version ids and sessions go on after a restart. A failed sync stops the shard: it does not answer
from doubt.

What it refuses. There is no replication: when the disk is lost, so is the data. Nothing is atomic across
shards. The number of shards of existing data does not change. The faults of the original that its clients
do not depend on are not copied.

The rooms, from the ground up; each opens with its own essay:

- `metastore.pb`            the messages, generated from `proto/`
- `metastore.log`           the append-only log: files, checksums, torn tails, trimming; it knows nothing of records
- `metastore.engine`        one shard: key order, the LMDB index, secondary indexes, sequences, sessions, rounds
- `metastore.watch`         the watches of a shard: snapshots, changes from the log and live
- `metastore.server`        the gRPC front, shard workers, health, metrics, TLS and tokens
- `metastore.interface`     the contract of a store, whatever is behind its URL; it knows none of the other rooms
- `metastore.providers`     what is behind the URLs: the engine in process, the wire, ZooKeeper, plain memory
- `metastore.coordination`  leaders, locks and members, on nothing but the contract
- `metastore.client`        the command line `tidemark client`, on nothing but the contract and coordination
- `metastore.demo`          the story that `make demo` tells

Beside them stand modules that every room may use: `clock` (time as an argument), `faults` (named points at
which a test stops the process), `files` (what makes files durable), `commandline` and `tables` (the `tidemark`
program), and what services share: `addresses`, `logs` and `tokens`.

Where to start reading: `metastore.engine`, whose essay follows one write through a round; then
`metastore.log` for what happens on disk, and `metastore.server` for what happens on the wire. To use a store:
`metastore.interface`.
"""

__version__ = "0.1.0"
