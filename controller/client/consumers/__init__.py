"""Consumers of topics: receiving from segments that come and go, as if it were one thing.

The idea. A topic's consumer is a set of consumers of segments, which all pour into one intake; the application stands
at the intake, and hears nothing of splits, merges and moves. Which segments these are somebody else says: for a stream
the topic's leader, who divides the segments among the consumers, for a queue and for a checkpoint the layout. There are
three kinds, because there are three things that one may want, and none of them offers what belongs to another:

    StreamConsumer       each key in order; acknowledged up to a message, over all segments at once
    QueueConsumer        message by message, to whoever has time; given back, overdue, dead letters
    CheckpointConsumer   without a subscription; it says where it is, and somebody keeps that
    CheckpointGroupConsumer    several of these that divide a topic, and hand over where they are

and of the first two one each for all topics of a namespace that have certain properties.

    doors                what a client offers; surroundings: what it lends
    base, intake         where messages come in
    messages             what is received
    assignments          a member of a divided subscription, on the books of the leader
    attachments          a segment that is taken over, read and given up; progress: what was received of it. Pure
    streams, stream      a topic of a stream; stream consumers
    queues, queue        a topic of a queue; queue consumers
    works, redelivery    what is in work, and when it comes again. Pure
    deadletters          what came again too often
    checkpoint, group    reading from checkpoints; groups. checkpoints: the values. Pure
    namespaces, seeking  all topics of a namespace; putting a subscription elsewhere

What it promises. What was acknowledged is not received again, here or by others. What the application has is not handed
out to it a second time behind a broken stream. A key's messages come in order through splits, merges and moves: a
segment is given up when what was received of it is acknowledged, or its time is over. Where acknowledging is too late,
because somebody else has the segment or the message by then or it comes again, it is said, and a transaction does not
commit on it. What others have been given is forgotten here: should it come back, it is handed out. One bound holds for
all that comes ahead of being asked for, in entries and in bytes, however many segments and topics there are.

What it refuses. It keeps no positions: those are subscriptions', or the application's. It decides nothing about who has
which segment. It keeps nothing of a message once that is handed out, but where it is.

Start reading at stream.py, then attachments.py and progress.py; then queues.py.
"""

from controller.client.consumers.checkpoint import CheckpointConsumer
from controller.client.consumers.checkpoints import Checkpoint
from controller.client.consumers.deadletters import DeadLetters
from controller.client.consumers.group import CheckpointGroupConsumer
from controller.client.consumers.messages import QueueMessage, StreamMessage, TopicMessage
from controller.client.consumers.namespaces import NamespaceQueueConsumer, NamespaceStreamConsumer
from controller.client.consumers.queue import QueueConsumer, QueueOptions
from controller.client.consumers.redelivery import RedeliveryBackoff
from controller.client.consumers.stream import StreamConsumer

__all__ = [
    "Checkpoint",
    "CheckpointConsumer",
    "CheckpointGroupConsumer",
    "DeadLetters",
    "NamespaceQueueConsumer",
    "NamespaceStreamConsumer",
    "QueueConsumer",
    "QueueMessage",
    "QueueOptions",
    "RedeliveryBackoff",
    "StreamConsumer",
    "StreamMessage",
    "TopicMessage",
]
