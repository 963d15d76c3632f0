"""Changes of a topic that take several steps: written down before the first, and finished by whoever leads next.

The idea. To split a segment is to make two, to close one, and to say so in the topic's record; in between anybody may
die. So what is to be done stands in a record of its own, the operation, before anything happens, with all that was
chosen: the time, the names, the numbers. What is still to be done follows from that record and the topic's, by a pure
function; every step may be done again. Whoever leads the topic next asks the same function, and goes on. While there
is an operation there is no other one: the record is in its way.

    operation   what is to be done, as it stands in the record
    steps       what is still to be done: the pure function
    work        what is asked of the owners of segments
    records     the records of topic and operation, written on the strength of the leader's grant
    runner      carries an operation out; errors: what becomes of one that cannot be
    retention   which sealed segments may go

The order of a split, and of a merge: new segments with a cursor for every subscription, at their beginning; then the
old ones are sealed; then the topic's record changes, and the operation is over, in one commit where the store has
`transact`. So nobody sees a segment that lacks a cursor, and no two segments take messages of one key at a time.

What it promises. A crash at any instant leaves an operation that is finished, or undone where it could not be done and
nothing was sealed yet. A range of keys is writable again as soon as somebody leads. Nothing of an operation that was
undone, a segment that was pruned or a topic that was deleted stays behind. A leader who was deposed changes nothing.

What it refuses. It elects nobody, and decides nothing about when to split.

Start reading at steps.py.
"""

from controller.operations.errors import OperationFailed
from controller.operations.operation import Kind, Operation, Phase
from controller.operations.records import LeaderRecords, StoredOperation
from controller.operations.retention import KEEP, prunable
from controller.operations.runner import OperationCounts, Runner, SubscriptionRecords
from controller.operations.work import Bound, OwnedWork, SegmentWork, Start, data_name, has_cursors

__all__ = [
    "KEEP",
    "Bound",
    "Kind",
    "LeaderRecords",
    "Operation",
    "OperationCounts",
    "OperationFailed",
    "OwnedWork",
    "Phase",
    "Runner",
    "SegmentWork",
    "Start",
    "StoredOperation",
    "SubscriptionRecords",
    "data_name",
    "has_cursors",
    "prunable",
]
