"""Sending to a topic: to whichever segments it has by now, in order for each key.

The idea. A topic's producer is a set of senders, one for each segment that it has something for, and a `Dispatch` that
says what may be sent when. The dispatch is pure; the crew does what it says: it opens senders, moves messages, and
follows the layout. Which segment takes a message follows from the hash of its key; that a segment has been sealed is
learnt from the segment itself, where its successors are from the layout.

    producer    `Producer`: what applications call; the numbers, and the bounds of what waits
    options     `ProducerOptions`, `Access`
    crew        senders, and what happens to them
    dispatch    which message goes where, and when. Pure
    sender      messages for one segment
    floors      what had been stored before an application was started again
    claim       the exclusive right to produce
    hashing     hashes of messages that have no key

What it promises. Messages of one key are stored in the order in which they were sent, through splits, merges, moves and
crashes, and each of them once. A send that a sealed segment refuses goes to its successors, in the same transaction.
One bound holds for all that is not confirmed, however many segments there are.

What it refuses. It does not guess: what may be stored and is not confirmed in time is told as `SendUnconfirmed`, and is
not sent again under another number.

Start reading at producer.py, then dispatch.py.
"""

from controller.client.topics.producer.options import Access, ProducerOptions
from controller.client.topics.producer.producer import Producer

__all__ = ["Access", "Producer", "ProducerOptions"]
