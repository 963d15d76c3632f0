"""Segments: what a topic's entries are appended to, and what subscriptions have taken from it.

The idea. A segment is a durable, ordered log with one owner at a time, and beside it a little state: what was aborted
in it, what each producer has sent, what each subscription has taken. The log does not know of transactions: an entry
may bear the id of one, and that is all. What became of it is looked up where it was decided.

    log           the entries: where they are, who may append, what survives; local, or in the metadata store
    entry         the bytes of an entry: the envelope around what a producer sent
    operations    the records that say what a transaction does here, put before it is done
    buffer        the writing side: intents, the read horizon, aborted entries, resends
    claim         who may produce, if not everybody may
    cursor        what a subscription has acknowledged: pure values
    subscription  the reading side: cursors, pending acknowledgements, dispatch
    bell          news for those who wait
    errors        what segments refuse

What it promises. Positions only grow and are never given twice. What was acknowledged to a producer is there for every
later owner, and what was not is there as a whole or not at all. Nothing of a transaction is read before it committed,
by anybody, and everything of it once it has. A subscription's state is normalised: two states that acknowledge the
same are equal.

What it refuses. To guess: damaged bytes are an error that names the place. It does not elect owners: the grant that it
is given says who it is.

Start reading at log/, then buffer/ and subscription/.
"""
