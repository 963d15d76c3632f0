"""Segments: what a topic's entries are appended to, and what subscriptions have taken from it.

The idea. A segment is a durable, ordered log with one owner at a time, and beside it a little state for each
subscription. Neither knows of transactions: an entry may bear the id of one, and that is all. What became of the
transaction is looked up where it was decided.

    log       the entries: where they are, who may append, what survives; local, or in the metadata store
    entry     the bytes of an entry: the envelope around what a producer sent
    cursor    what a subscription has acknowledged: pure values
    errors    what segments refuse

What it promises. Positions only grow and are never given twice. What was acknowledged to a producer is there for every
later owner, and what was not is there as a whole or not at all. A subscription's state is normalised: two states that
acknowledge the same are equal.

What it refuses. To guess: damaged bytes are an error that names the place.

Start reading at log/.
"""
