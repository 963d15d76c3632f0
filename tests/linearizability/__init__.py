"""Whether what concurrent clients saw can have happened one after the other.

The idea: each key of a shard is a register with versions. A history of it is linearizable if its
operations can be put in one order, each at a moment between its call and its answer, in which a plain
register would have answered the same. Keys are independent of each other, so each is searched alone (Wing
and Gong's search, with Lowe's memory of the configurations that led nowhere).

It promises to accept every history that a correct server can make: an operation without an answer (its
server was killed) may have happened at any time after its call, or never. When it rejects a history, it
says which answer first made it impossible, and what was going on around it. It refuses to guess: a search
that grows beyond its bound is an error, not a verdict.

Start reading at `operations.py` (what is recorded) and `register.py` (what a register does); `search.py`
decides, `report.py` explains, `history.py` has the clients that record, `versions.py` looks at version
ids of all keys.
"""
