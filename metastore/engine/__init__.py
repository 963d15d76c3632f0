"""The engine: one shard of the store, in this process, with or without a server around it.

The idea. A shard is a log and an ordered index of it. The log is the truth: one entry per write request, holding the
request's effects. LMDB holds the index, and may be behind; what it lacks is in memory, in *generations* of changes.
Everything that waits to be written shares one *round*: it is staged, appended to the log, synced once, published,
answered. So writes cost memory and one sequential write, and LMDB is fed aside, sorted and in portions.

What it promises.
- A write that was answered is on the disk. A request applies whole or not at all, and requests have one order.
- Readers see what is durable, all of it, and nothing else. A scan sees one state, however long it takes.
- After a crash at any instant, opening gives back exactly what was answered (and maybe the last requests that were
  not): records, indexes, sessions, sequences, offsets and version ids. It takes no longer than LMDB may lag.
- A full disk or a used-up quota refuses what wants space, and nothing else. A failed sync stops the shard.
- Memory is bounded by how far LMDB may lag, not by the number of records.

What it refuses. It knows no network and no namespaces. It does not judge whether a key belongs to its shard. It
repairs no damage: a store that is not what was written does not open.

Start reading at `shard` (the door), then `rounds` (group commit), `stage` (requests) and `effects` (what their
operations do). `store` and `overlay` say what a reader sees, `changelog` what a shard tells of its past, `feeder` how
LMDB catches up, `change` and `record` what the bytes mean. `keys`, `index_keys` and `tree` make LMDB an ordered map
of keys of any length. `recovery` is what opening does, `previous` the switch for what watches want to know of the
past. `points` are states that stay for who reads very much: `cutting` says where a range can be parted, and `leaves`
takes records as they lie on LMDB's `pages`. `read`, `scan`, `sequence`, `sessions` and `notifications` are what their
names say.
"""
