"""Who leads a topic, and what he does for it.

The idea. Topics are posts (`txn.posts`): brokers follow which there are and who leads them, and take over what nobody
leads when their turn has come. A leader's term is that of his grant, and every record that he writes is conditional on
it. Whoever wins first finishes what was begun, then restores the consumers' sessions, and only then serves; whoever
loses stops at once, by his own clock.

    chart, leading        the posts, and how one is claimed, taken over and let go
    leaders               all of it, for one broker
    leader                a topic, served: splits, merges, subscriptions, consumers
    changing              what changes a topic, one after another
    line, requests        how it stands in line; operations as they are asked for
    birth                 how a topic comes to be, which nobody leads yet
    removal               how one ceases to be, as anybody sees it
    subscribing           subscriptions as operations need them
    claims                the exclusive right to produce
    scaling, pruning      what a topic does by itself, and when that is considered
    hearing               what a leader is told of its topic
    reports, strays       what owners of segments report, as the leader hears it; what is of no segment goes
    drains, loads         the same, as owners write it down
    hosted                segments at work, here or at the broker that owns them
    surroundings          what the leaders of one broker share

What it promises. One leader at a time, and a deposed one changes nothing. What was begun is finished or undone, whoever
dies. A topic's layout, its subscriptions and where their cursors are change one after another. What is considered by
itself is considered when something has happened, and it is told what came of it and why.

What it costs. A broker has three watches of the store for all topics there are, and one session. A topic that it leads
costs three watches more (its grant, its record, what is reported), some tasks, and one for each subscription with
consumers; while nothing happens there is no call and no timer. Once a minute all are considered, in memory.

What it refuses. It speaks no wire. It moves no topic to balance the load.

Start reading at leading.py, then leader.py.
"""

from controller.leading.claims import ClaimMode, Claims, Hold
from controller.leading.drains import Drains
from controller.leading.errors import ProducerBusy
from controller.leading.hosted import HostedSegments, Remote
from controller.leading.leader import TopicLeader
from controller.leading.leaders import Leaders, LeadersOptions
from controller.leading.loads import LoadReporter, Meter
from controller.leading.scaling import Considered, ScaleCounts
from controller.leading.surroundings import Surroundings

__all__ = [
    "ClaimMode",
    "Claims",
    "Considered",
    "Drains",
    "Hold",
    "HostedSegments",
    "Leaders",
    "LeadersOptions",
    "LoadReporter",
    "Meter",
    "ProducerBusy",
    "Remote",
    "ScaleCounts",
    "Surroundings",
    "TopicLeader",
]
