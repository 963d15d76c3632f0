"""The specified behaviour of one shard, in plain, slow, obviously right Python.

The idea: everything a shard keeps is a dict of records, and every question is answered by looking at all
of them. Nothing is indexed, cached or remembered twice, so there is little that can be wrong; what the engine
does with logs, overlays and trees must give the same answers.

It promises the behaviour that the protocol specifies: statuses, versions, modification counts, times, key
orders, secondary indexes, sequences, sessions, notifications and offsets, message for message. Where the
reference server is known to be at fault, the model does the right thing instead. It speaks the protocol's own
messages.

It refuses to know about durability, concurrency, streams, limits of size and retention: those are tested
elsewhere.

Start reading at `model.ShardModel`; `staging` holds the rules of a write, `order` the two key orders.
`strategies` makes small and nasty requests, `machine` runs them against the model and any other shard side by
side.
"""

from shard_model.model import ShardModel
from shard_model.rules import ModelInvalid

__all__ = ["ModelInvalid", "ShardModel"]
