"""Single segments: what sends to one, receives from one, reads one. Topics are put together of these.

The idea. A member of a segment is a party on a lane: the lane keeps a stream to whoever owns the segment, the party
knows what is to be said on it, and what has to be said again on the next one.

    member             what all three share
    lane               streams to the owner of a segment, one after the other
    producer, outbox   messages without a confirmation, in their order
    consumer, inbox, acks      messages ahead of being asked for; acknowledgements without an answer
    consuming          how a consumer receives; credits: how much may come, over several segments. Pure
    reader             reading without a subscription

What it promises. Order within the segment; each message stored once; whatever waits is bounded.

What it refuses. It knows of no topic: what a sealed segment refuses is told to whoever sent it, and where to go then is
not known here.

Start reading at lane.py, then producer.py with outbox.py.
"""
