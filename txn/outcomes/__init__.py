"""What became of transactions: one watch of the open ones' headers, shared by all who want to know.

The idea. Nobody tells a participant that a transaction has ended. The decision is a change of the header, and whoever
takes part follows the header. All open transactions are in the index of deadlines, and what decides one takes it out of
there; so one watch of that index tells all decisions, with the headers, and to take part in another transaction costs
the store nothing. Only a header that is not in the index when somebody asks is looked at, once.

What it promises. What is known is true: a decision that was seen is final, and `decided` returns as soon as the store
tells of it, without asking again and again. A watch that is lost is opened anew by itself, and whatever may have been
missed is looked at. How much is known does not grow with the transactions that have ended.

A header that is not there counts as aborted *here*, where the question is whether something more may be done in the
transaction, and what becomes of the traces that it has left. The rule behind that: a header is removed only when all
operation records of its transaction are gone, hence when everybody has carried the outcome out. So a missing header
hides nothing and shows nothing by itself: what is durable in the segment does.

What it refuses. It decides nothing and changes nothing. That a transaction is open may be over by the time one acts
on it: who writes on the strength of it makes the write conditional on the header's version (`Known.version_id`), or
looks again.

    headers    `OpenHeaders`, the watch; whoever else in the process wants the open transactions shares it
    followed   `Followed`, a participant's hold on one transaction; `Known`
    outcomes   `Outcomes`, one for each process

Start reading at followed.py.
"""

from txn.outcomes.followed import Followed, Known
from txn.outcomes.headers import OpenHeaders
from txn.outcomes.outcomes import FOLLOWED_MAX, Measures, Outcomes, looked

__all__ = ["FOLLOWED_MAX", "Followed", "Known", "Measures", "OpenHeaders", "Outcomes", "looked"]
