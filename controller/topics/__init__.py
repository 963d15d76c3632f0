"""Topics as they stand in the store: keys, records, and how they are found and changed.

    paths      keys, partitions, indexes
    records    `Topics`: create, read, update, find
    policies   what holds for all topics of a namespace
    errors     what can be wrong with a topic

What it promises. All that belongs to a topic is in one partition, so its leader's writes can depend on its leading. A
change is a compare-and-set of the newest record; what others change meanwhile is never lost. Topics are found by their
properties exactly, on any number of shards.

What it refuses. It leads nothing and moves no data: that is what operations do.

Start reading at records.py.
"""

from controller.topics.errors import (
    InvalidTopic,
    NotLeader,
    OperationUnderWay,
    SubscriptionNotFound,
    TopicError,
    TopicExists,
    TopicNotFound,
)
from controller.topics.records import StoredTopic, Topics

__all__ = [
    "InvalidTopic",
    "NotLeader",
    "OperationUnderWay",
    "StoredTopic",
    "SubscriptionNotFound",
    "TopicError",
    "TopicExists",
    "TopicNotFound",
    "Topics",
]
