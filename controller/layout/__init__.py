"""The shape of a topic, as pure values: names, hashes, ranges, segments, and how they change.

The idea. A topic is a ring of 65,536 hashes, tiled by active segments. A hot segment is split into two, cold neighbours
are merged into one; what was sealed stays readable behind its successors until it is pruned. All of it is one immutable
value, the `Layout`, and a change is a function from one layout to the next.

    names      topics, segments and namespaces: reading names, and where records are kept
    hashing    from keys to hashes
    ranges     ranges of hashes
    buckets    the parts of a segment that consumers can share
    segments   one node of the graph
    layout     `Layout`: split, merge, prune, and questions
    routing    which active segment a message goes to
    record     the topic's record, as JSON

What it promises. The active segments of every layout tile the ring; relatives know each other; no id is given twice;
the same changes give the same layout. How often a segment was merged is known however much of its past is pruned.
Names, hashes and records are those of Pulsar 5.

What it refuses. There is no I/O here, and no clock: times are given. What cannot be is refused by name, and changes
nothing.

Start reading at layout.py.
"""

from controller.layout.buckets import BUDGET, bucket_ranges, equal_splits
from controller.layout.errors import InvalidName, InvalidRange, LayoutError, SegmentInWrongState, SegmentNotFound
from controller.layout.hashing import bucket_hash, key_hash, segment_hash
from controller.layout.layout import Layout
from controller.layout.names import Domain, NamespaceName, SegmentName, TopicName
from controller.layout.ranges import FULL, HashRange
from controller.layout.record import TopicRecord
from controller.layout.routing import Router
from controller.layout.segments import Segment, SegmentState

__all__ = [
    "BUDGET",
    "FULL",
    "Domain",
    "HashRange",
    "InvalidName",
    "InvalidRange",
    "Layout",
    "LayoutError",
    "NamespaceName",
    "Router",
    "Segment",
    "SegmentInWrongState",
    "SegmentName",
    "SegmentNotFound",
    "SegmentState",
    "TopicName",
    "TopicRecord",
    "bucket_hash",
    "bucket_ranges",
    "equal_splits",
    "key_hash",
    "segment_hash",
]
