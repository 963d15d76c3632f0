"""Who reads what: the segments of a topic, divided among the consumers of a subscription.

The idea. An assignment is a pure function of the segments that may be read, of the consumers' names, and of who had
what before. Parents are read to their end before their children begin; what is read to its end counts for nothing.

    readiness    which segments may be read now
    strategies   `sticky`, which moves as little as can be, and `round_robin`, which forgets who had what

What it promises. Every servable segment is read by somebody as soon as there is anybody, and nobody has two more than
another. The same inputs give the same answer on every broker. With `sticky`, a consumer who joins or leaves moves no
segment that need not move.

What it refuses. It knows no connections, timers or records: those are the coordinator's.

Start reading at strategies.py.
"""

from controller.assignment.readiness import servable
from controller.assignment.strategies import Assignment, Share, moved, round_robin, sticky

__all__ = ["Assignment", "Share", "moved", "round_robin", "servable", "sticky"]
