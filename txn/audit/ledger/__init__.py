"""The ledger: what there was of transactions, kept as Parquet for longer than the store keeps it.

    DIR/VIEW/day=2026-11-18/…    rows of a view: each version of a record once, with `as_of`, when it was so
    DIR/removed/day=…            which keys were removed, and when; only a recorded ledger knows
    DIR/_seen/VIEW/…             which versions of records the last snapshot saw
    DIR/_stream/…                where the recording of changes began, and Spark's checkpoint of it
    DIR/_additions/…             what is being added

The idea. A ledger is fed in one of two ways. By snapshots: an audit adds what it sees, as far as the audit before has
not seen it. Or by the stream: a query adds every change of the store, after one snapshot to begin with. Either way rows
are only added, and adding costs by what is added and what the store has, and not by what the ledger has; only where
the stream goes on behind a gap, that is read once.

    folder      the files: what is added is there as a whole or not at all, and who may do what at the same time
    rows        rows as DataFrames: reading, snapshots, housekeeping
    recorder    the stream

What it promises. What was recorded is there exactly once, whatever is killed meanwhile. Readers see what was there when
they began. A column that a later version adds is null in what was written before.

What it refuses. To change a row, and to go on over a gap in silence. It is a folder of a file system that Spark's
workers and the program share, which knows locks and renames.

Start reading at folder.py.
"""

from txn.audit.ledger.folder import LedgerBusy
from txn.audit.ledger.rows import Ledger, Past

__all__ = ["Ledger", "LedgerBusy", "Past"]
