"""Range watches of one shard, in its process: a snapshot of a range, then every change of it, in order.

The idea. The change log has everything that ever happened, with an offset, so a watch is a position in it and a
range. A watch that is caught up need not read the log: each round of writes is decoded once, a structure over the
ranges finds the watches that it concerns, and only their queues get anything. A watch whose reader is slow loses its
queue and goes back to the log, at its reader's pace, until it has caught up. Offsets say where one way ends and the
other begins, so nothing is lost and nothing told twice.

What it promises.
- What is told is durable and readable. Changes of one write request come together, requests in their order.
- The snapshot is one state; the changes begin right behind it. A resumed watch goes on behind its offset.
- A watch that cannot be given all of it ends with an error that names the oldest offset there is: never silence.
- A change costs what the watches that match it cost, and a logarithm. A round without watches costs nothing.
- Memory is bounded for each watch, and what a lagging one costs is a bounded read of the log when its reader asks.

What it refuses. It knows no network, no tokens and no flow control: fronts do. Its records are the engine's.

Start reading at `spec` and `news` (what goes in and comes out), then `hub` (the door) and `feed` (one watch). `live`
is the path of a round to the queues, `effects` and `matching` say what a log entry is to a range, `ranges` is the
structure over the ranges, `snapshot` the beginning of a watch.
"""
