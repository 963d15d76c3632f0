"""What became of transactions: one look at each header, then a watch, shared by all who want to know.

The idea. Nobody tells a participant that a transaction has ended. The decision is a change of the header, and whoever
takes part follows the header. Many segments and subscriptions of one process may take part in the same transaction; the
header is watched once for all of them, from the first who asks until the last has let go.

What it promises. What is known is true: a decision that was seen is final, and `decided` returns as soon as the store
tells of it, without asking again and again. A watch that is lost is opened anew by itself, and what was missed shows in
its first look. A transaction that is decided is watched no longer.

A header that is not there counts as aborted *here*, where the question is whether something more may be done in the
transaction, and what becomes of the traces that it has left. The rule behind that: a header is removed only when all
operation records of its transaction are gone, hence when everybody has carried the outcome out. So a missing header
hides nothing and shows nothing by itself: what is durable in the segment does.

What it refuses. It decides nothing and changes nothing. That a transaction is open may be over by the time one acts
on it: who writes on the strength of it makes the write conditional on the header's version (`Known.version_id`), or
looks again.

    followed   `Followed`, a participant's hold on one transaction; `Known`
    outcomes   `Outcomes`, one for each process

Start reading at followed.py.
"""

from txn.outcomes.followed import Followed, Known
from txn.outcomes.outcomes import FOLLOWED_MAX, Measures, Outcomes

__all__ = ["FOLLOWED_MAX", "Followed", "Known", "Measures", "Outcomes"]
