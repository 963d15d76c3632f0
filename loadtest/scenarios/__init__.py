"""What load consists of: named scenarios over the public clients of the store, of transactions and of topics.

The idea. A scenario says what one arrival does, and nothing of when: `loadtest.arrivals` has the schedule, so every
scenario runs in the open model at any rate. What comes by itself (news of watches, messages, aborts at a deadline) is
timed event by event: a value carries when the arrival was meant to begin that caused it.

    scenario       `Scenario`, `Stage` (shared connections)
    points         metadata-mixed, metadata-zipf, metadata-hot
    ranges         sequences, index-scans, watches
    sessions       session-storm
    transactions   transactions, transactions-contended
    topics         topics, topics-reshaping
    registry       all of them by name, and mixes

What it promises. It works through the same clients as applications, against any store that they can open. Topics,
segments, sequences and watched ranges are made for one run and removed at its end; the records of the other scenarios
stay below `/load`, so that the next run finds them.

What it refuses. To call a refusal a success: what a client raises is the error of its arrival.

To use it from another program: `Generator` in `loadtest.engine` runs scenarios in an event loop of yours. A scenario of
your own is a subclass of `Scenario` in one of these modules, and a line in registry.py and in docs/load.md.

Start reading at scenario.py, then points.py.
"""

from loadtest.scenarios.registry import MIXES, MIXES_SAID, SCENARIOS, parts_of, rate_of
from loadtest.scenarios.scenario import Scenario, Stage, TargetMissing, new_mark

__all__ = [
    "MIXES",
    "MIXES_SAID",
    "SCENARIOS",
    "Scenario",
    "Stage",
    "TargetMissing",
    "new_mark",
    "parts_of",
    "rate_of",
]
