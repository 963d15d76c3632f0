"""Whether transactions were what they promise to be: judged from what clients did and saw, and from nothing else.

The idea. Everybody notes: who sends, ends, acknowledges or reads writes down when he began, when he was answered, and
what. In the end, when all is at rest, everything is read once more: by readers from the beginning, by a fresh
subscription, and by every subscription that there was. From these notes alone a pure function decides, with the
evidence of each verdict. It knows nothing of horizons, records or brokers; what they are for is what it asks for:

- of writes: what was acknowledged is there, once, where its sender was told it is, in its producer's order; all of a
  transaction or nothing of it; nothing of what was refused, or aborted;
- of reading, at any time: nothing of a transaction that is aborted in the end, nothing before it was committed, nothing
  left out, nothing twice, nothing out of order;
- of acknowledgements: what was acknowledged in a committed transaction never comes again, not while it was open either;
  what was acknowledged in an aborted one does; of two transactions only one gets an entry;
- of outcomes: everybody is told the same, the commit that came too late loses, and nothing but the deadline is late;
- of the end: no horizon stands before the end, and no record is left.

Times are ticks of one counter. What took effect between its beginning and its answer took effect somewhere in between:
the checker accepts whatever some moment in between explains. A call without an answer may have happened or not, and the
checker accepts both, but not both at once. It does not judge how long anything takes.

What it needs: payloads that are never sent for two different messages, and final readings taken when nothing moves.

    notes       what is noted
    history     all notes of a run, looked up by what they are about
    violations  what can be wrong
    outcomes, writes, readings, acks, rest: the judges
    checker     the door
    totals      the counts of many runs together

Start reading at notes.py, then checker.py.
"""
