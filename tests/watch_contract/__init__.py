"""Whether watchers were told what the writers did: all of it, once, in order, and nothing else.

The idea. Writers note what they wrote, when, and what they were answered; watchers note every batch with its token.
From these notes alone a pure function decides. First it makes out the truth: for each shard, the writes that took
effect, at their offsets. One watcher, the witness, was there from before the first write and looked at everything: it
says at which offset each write stands. It is not believed for that. The order that it tells has to explain every answer
that a writer got and the records that are there in the end; a write that was acknowledged and that it does not tell, or
one that was refused and that it does, is a violation, and so is an order that contradicts versions, conditions, or what
had returned before what began.

Then every watcher, the witness too, is held against the truth. A token is an offset of each shard. So whatever comes
between two tokens has to be exactly what the writes between those offsets are to the watcher's range: no change
missing, none twice, none invented, none out of order, no write torn, the kinds right, the records as they were before
and after. A snapshot has to be the state at the offsets of its end. A mark of progress is a batch with nothing in it:
what it passed over must be nothing to the range. No token may lie beyond what has been written by then, nor before what
was acknowledged when the watch began. An end for want of old changes is allowed where they were old, and nowhere else.

For stores that may tell several changes of a record as one there is a second judge, which knows no offsets: per record
the states come in their order, each was once true, and the last one comes.

It promises to accept what a correct store can do: a write without an answer may have happened or not. It does not judge
how long anything takes. What it needs is written down: values that are never written twice, a witness that is never too
late, and at most one call at a time on a key for each store object (a client may put calls together in one request,
which is one write, and tells only what became of a record).

Start reading at `writes` and `sightings` (what is noted), then `truth` and `reconstruction`, `judge` (the heart, with
`comparison`), and `coalesced`; `verdict` is the door. `writer`, `watcher` and `stage` take the notes in real runs.
"""
