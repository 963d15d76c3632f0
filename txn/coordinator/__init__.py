"""The coordinator: begins transactions, decides them, and sweeps up behind them.

The idea. All state is in the store, so a coordinator is only a way of writing it: any coordinator serves any
transaction, none has anything to recover, and several of them need not know of each other. A decision is one
compare-and-set of the header, and whoever loses that race reads who won it and says so.

    judgement    what may become of a header: pure
    numbering    ids that are never given twice
    coordinator  `Coordinator`: begin, commit, abort, describe
    sightings    what an index of headers shows
    registry     the transactions that are open, and those that are decided, kept by watches of the two indexes
    deadlines    aborts what has run out of time
    collector    removes the records of what is done with

What it promises. Exactly one outcome, told truthfully to everybody who asks, also after a lost answer. A commit at or
after the deadline loses. The work at the end does not depend on how much a transaction did or with whom. What has run
out of time is aborted at its deadline, not at the next round of some sweep. A header goes only when no operation is
left.

What it refuses. It never calls a participant, and it never waits for one.

Start reading at judgement.py, then coordinator.py.
"""
