"""Watches of topics: what clients are told of a topic, and of the topics of a namespace, by whatever broker they ask.

The idea. What there is to tell stands in the store, and any broker may follow it. However many clients of a broker
watch the same thing, the broker follows it once; a session is only a place in what was told so far. Nothing is queued
for a session: who watches a topic is given its newest state, and who watches a namespace the differences since his
place while those are kept, else the whole set again. So a slow session costs no memory and slows nobody.

    lives      whether two versions are of one record, or of two that had the same key
    pictures   a topic as it is told, and what follows from news of it: pure values
    owners     which broker serves a segment
    topics     the watch of a topic: its layout, its leader, the owners of its segments, its deletion
    names      sets of names: their hash, and their pages
    rolls      the topics that have certain properties, and how that set changed last: no I/O
    namespaces the watch of a namespace's topics, by properties
    sharing    one follower for all who want the same

What it promises. The present state first, then every change; of states that follow each other faster than they are
taken the newest. Nothing older than what was told is told after it, whatever a lagging store shows (H12). A topic that
is deleted is said to be so, also if it is there again by then. A set that is put together from what a session was told
becomes the set that there is: no removal is lost (H14), whatever happens to the store's watches meanwhile. No message
is larger than a named limit.

What it refuses. It creates no topic, asks no permission and knows no wire: that is what fronts are for.

Start reading at topics.py, then rolls.py and namespaces.py.
"""

from controller.watches.errors import TooManyWatches
from controller.watches.names import hash_of
from controller.watches.namespaces import NamespaceSession, NamespaceWatches
from controller.watches.owners import SegmentOwners, StoredOwners
from controller.watches.pictures import TopicGone, TopicState
from controller.watches.rolls import Diff, SnapshotPage
from controller.watches.topics import TopicSession, TopicWatches

__all__ = [
    "Diff",
    "NamespaceSession",
    "NamespaceWatches",
    "SegmentOwners",
    "SnapshotPage",
    "StoredOwners",
    "TooManyWatches",
    "TopicGone",
    "TopicSession",
    "TopicState",
    "TopicWatches",
    "hash_of",
]
