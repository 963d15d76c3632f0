"""A watch over a plain Oxia, which has none: made of its notifications and of reads.

The idea: notifications tell, write by write, which keys were changed and to which versions, but neither the records nor
what they were. So a watch keeps a *mirror* of what it has told (keys and versions), looks at the records that
notifications name, and tells the differences. `ledger` is the heart, and pure: it knows when what was notified and what
was seen fit together, so that each change is told with the write that made it, and each token stands for exactly what
was told by then. Around it, per shard, `tail` reads notifications and notices when some are missing, `looks` reads
records, and `feed` is the task that brings them together.

It promises what the contract does for stores that do not tell every change: per record changes come in their order, the
last one always comes, and nothing is told that was never true. Notifications that were missed are made good by reading
the range again.

It refuses what it would have to guess: to resume where notifications are no longer kept, or do not say enough
(TokenExpired), and to keep more in memory than its bounds allow (LimitExceeded). docs/watch.md says when that is.

Start reading at `ledger`, then `feed`.
"""

from metastore.providers.wire.emulation.watch import Emulation

__all__ = ["Emulation"]
