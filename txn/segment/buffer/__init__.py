"""The transaction buffer: the write side of an owned segment, and what may be read of it.

The idea. Entries of transactions stand in the log like all others, where they were sent, and are never moved or marked.
That they may not be read yet, or never, is said beside the log. So a commit costs nothing here, an abort a record, and
a sealed segment settles its transactions like any other, because nothing has to be appended for it.

    the intent      before an entry is appended, an operation record says where it will be. So the records tell every
                    entry that an undecided transaction may have, and nobody has to read the log to know them
    the horizon     nothing is read from the first entry of the oldest open transaction on. It moves the moment a
                    decision is learned, and those who wait for it are woken
    the aborted     a transaction that was aborted is remembered, durably, for as long as any of its entries is kept;
                    every other transaction that is not in the owner's hands was committed
    the settlement  in this order: nothing is on its way any more; the abort is durable; the operation records go, and
                    the transaction is let go of. Cut off anywhere, the next owner goes on from there
    the producers   a message that is sent again is not appended again; unless the first was not written, or aborted

What it promises. The order of the calls is the order in the log, for each producer at least, over plain and
transactional messages alike. One append for a message, one record for all messages of a transaction that are appended
together. Positions that an intent announces are those that the entries get, or nothing ever gets them. What may be read
is known exactly when `recover` returns, and that takes no longer for a longer log. A transaction that was decided gets
no entry whose intent came later. Nothing that fails is given up: settling is repeated until it is done, or there is
another owner. No clock decides anything; times are written down for those who look.

What it refuses. More than its named limits hold (`BufferOptions`), messages of decided transactions, and everything
once it has ended. It does not know who reads, nor what was acknowledged.

    buffer         `TransactionBuffer`: recover, publish, seal, trim
    visibility     `Visibility`: the bound, and the filter that every reader goes through
    horizon, numbers, producers, round     pure decisions: what holds the bound; which messages are new; who gets where
    line, publisher                        from the call to the confirmation
    participation, settlement, aborted     a transaction from its first message here until nothing is left to be done
    recovery, snapshots                    what an owner finds, and what it leaves so that there is little to be read
    means, options, published              what it works with; limits and measures; the answer to a producer

Start reading at buffer.py, then publisher.py and settlement.py; recovery.py says why what it finds is all there is.
"""

from txn.segment.buffer.buffer import TransactionBuffer
from txn.segment.buffer.means import BufferStats
from txn.segment.buffer.options import NO_MEASURES, BufferOptions, Measures
from txn.segment.buffer.published import Published
from txn.segment.buffer.visibility import Visibility, Visible

__all__ = [
    "NO_MEASURES",
    "BufferOptions",
    "BufferStats",
    "Measures",
    "Published",
    "TransactionBuffer",
    "Visibility",
    "Visible",
]
