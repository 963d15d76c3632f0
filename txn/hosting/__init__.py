"""Hosting: which segments there are, which broker serves each of them, and how one follows another.

The idea. A segment is a descriptor in the store. Whoever holds the grant of its name owns it, and the grant's term is
the number of the ledger that he writes: so an owner who no longer is one is refused wherever he writes. Segments are
posts (`txn.posts`): brokers follow which there are and who owns them, and take over what nobody owns when their turn
has come. What is owned stays where it is.

The order at the beginning: the grant, the log under its term, the transaction buffer, every subscription; then it is
served. At the end the other way round. An owner is deposed by its own clock, before another can be elected, without
asking anybody; from then on everything raises, and what was on its way is refused by the term.

    descriptor, descriptors   a segment, from its creation to its deletion
    places                    where logs are kept: in the store, or in a directory, which only some brokers have
    chart                     the live picture of all that
    owning                    how a segment is claimed and let go
    opening, segment          what is owned, brought up, and served
    deletion                  a segment's way out, in steps that anybody resumes
    participants, sweeper     what is gone for good; deadlines and collection, by one broker at a time
    host                      all of it, for one broker; measures: who counts

What it promises. One owner at a time. A segment whose owner dies is served again as soon as its session has ended and
a broker lives that can reach its log; at once where the owner resigns. What fails is tried again, under another term,
here with growing pauses and by others meanwhile. A deletion that is begun comes to its end, whoever dies, and leaves
nothing: neither of the segment nor of the transactions that wrote to it.

What it costs. A broker has one session, whatever it owns, and three watches. A segment that others own costs it two
small entries in memory. One that it owns itself costs two watches of the store (its grant, its operation records), one
more for each subscription, eight tasks (five for a subscription) and less than 50 KiB (25 for a subscription); while
nothing happens there is no call and no timer. To take one over costs a dozen calls of the store and two milliseconds.
So thousands of them are no burden: what limits a broker is what its segments do. Claims and recoveries are bounded
(OPENINGS_AT_ONCE_MAX), so that a broker that takes over a thousand segments does not do it all at once.

What it refuses. It does not move what is owned to balance the load. One session for all means that what costs a broker
its session costs it all segments at once: also a claim whose answer was lost and cannot be looked up, for then the
session is given up, to be sure. It is back a moment later.

Start reading at owning.py, then opening.py and host.py.
"""

from txn.hosting.descriptor import Descriptor, SegmentState
from txn.hosting.errors import (
    NoBrokerServesSegment,
    NoSuchSegment,
    OwnedElsewhere,
    SegmentExists,
    TooManySubscriptions,
)
from txn.hosting.host import Host, HostOptions
from txn.hosting.measures import NO_MEASURES, HostMeasures
from txn.hosting.opening import OpeningOptions
from txn.hosting.places import STORED, local_place, local_place_of
from txn.hosting.segment import Segment
from txn.posts import Broker, Owner

__all__ = [
    "NO_MEASURES",
    "STORED",
    "Broker",
    "Descriptor",
    "Host",
    "HostMeasures",
    "HostOptions",
    "NoBrokerServesSegment",
    "NoSuchSegment",
    "OpeningOptions",
    "OwnedElsewhere",
    "Owner",
    "Segment",
    "SegmentExists",
    "SegmentState",
    "TooManySubscriptions",
    "local_place",
    "local_place_of",
]
