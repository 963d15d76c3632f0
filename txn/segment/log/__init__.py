"""The log of a segment: entries in an order, written by one owner at a time, and kept where the next owner finds them.

The idea. Each owner writes a *ledger* of its own, numbered by its term; an entry's position is the ledger and its place
there. So whatever an owner does that no longer is one, it never gives a position to an entry that is given to another.
What is confirmed is durable and has no gap before it; who takes over finds exactly that, and decides what was under
way: a group of entries is there as a whole or not at all.

Two places to keep it, with the same promises and one suite of tests:

    local      files of this machine, fast; another process of the same machine can take over
    stored     records of the metadata store; any broker can take over

What it promises. Taking over does not read the history. A deposed owner's late append is neither confirmed nor read.
A full disk refuses appends and changes nothing; where it is in doubt what is durable the log stops, and nothing is
confirmed that may be lost. A seal outlasts its owner. Who reads at the end reads from memory, and who waits for more is
woken.

What it refuses. It knows nothing of what entries mean, of subscriptions, or of who may own a segment: the term says
that, and `metastore.coordination` gives terms. A term opens a log once. Owners alone read.

    interface   `SegmentLog` and `SegmentLogs`, in prose
    ledgers     which positions are neighbours
    state       what a log says of itself beside its entries
    owned       what both kinds do alike: positions, order, news; waiting, recent, ahead: its parts
    local       with directory (the lock and the state), offsets (positions in one file log) and threads
    stored      with records (keys), chunk (bytes), fences and takeover (who may write), pipeline (writing)

Start reading at interface.py, then owned.py; then local.py, or takeover.py and fences.py.
"""

from txn.segment.log.interface import LogEntry, SegmentLog, SegmentLogs
from txn.segment.log.ledgers import START, LedgerLength, LedgerLengths
from txn.segment.log.local import LocalLogOptions, LocalLogs, LocalSegmentLog
from txn.segment.log.stored import StoredLogOptions, StoredLogs, StoredSegmentLog

__all__ = [
    "START",
    "LedgerLength",
    "LedgerLengths",
    "LocalLogOptions",
    "LocalLogs",
    "LocalSegmentLog",
    "LogEntry",
    "SegmentLog",
    "SegmentLogs",
    "StoredLogOptions",
    "StoredLogs",
    "StoredSegmentLog",
]
