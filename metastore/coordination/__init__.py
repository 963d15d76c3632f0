"""Coordination: leaders, locks and members, on nothing but the contract of a store.

The idea. A *grant* is an ephemeral record that is put where there is none: the store lets one such put succeed, and
the record goes with the session of whoever put it. Its version is its *term*: a number that only grows for a role,
across sessions, restarts and deletions, because a store never gives a record a smaller version than an earlier one had
under its key. Elections and locks are the same grant; a member's registration is its harmless cousin.

Nothing is polled. Whoever must wait stands in a *line*: a sequence of ephemeral records of which each watches the one
before it, and the first one the grant. So a handover wakes one candidate and not all of them, who came first goes
first, and a candidate that dies while it waits leaves a gap that closes by itself. The price is a write on the way in
and one on the way out, paid only by those who wait; and that a frozen candidate, when its turn comes, holds up the
others until its session ends. The line decides nothing: were it full of lies, one would still win.

What it promises. Two holders never both write with success after a handover:

- By the clock: a grant is not held any more (`is_held`) before its session can end at the store, judged without asking
  anybody. That covers all who run, and who ask before they act.
- By the term: a process that was stopped between asking and acting is not covered by any clock, so what it writes is
  conditional. `Grant.put`, `delete` and `transact` hold in the role's partition where the store has `transact`: the
  write applies only if the grant's record stands at that instant. `Grant.guard` holds on every store and in every
  partition: the record carries the term, a successor raises it before it acts, and older terms are refused.
- Where the record of a grant is removed by force, the first holds only from the moment its holder is told; the
  second holds all the same.

A put whose answer was lost is looked up by its mark, so nobody waits for himself; one that might still arrive is made
harmless by giving its session up. A release deletes what is its own and nothing else. Cancelled, everything here
cleans up behind itself.

What it refuses. No shared locks, no reentrancy, no terms across stores: copied to another store, records must be
guarded anew. What lasts as long as its owner wants it to, a campaign or a registration, goes on trying for so long, at
bounded intervals; all other repetition is bounded in number.

Start reading at grant.py, then candidacy.py for how one is won, and own_record.py for how a lost answer does no harm.
line.py is the order of waiting, guarded.py the fence, view.py what all waiting stands on, keeper.py the session.
"""

from metastore.coordination.election import Election, Leader, LeaderView
from metastore.coordination.errors import Deposed, ForeignRecord, NotGranted
from metastore.coordination.grant import Grant
from metastore.coordination.guarded import GuardedRecord, GuardedValue, read_guarded
from metastore.coordination.keeper import SessionKeeper
from metastore.coordination.lock import Lock
from metastore.coordination.membership import Member, MembersChange, MembersView, members, watch_members
from metastore.coordination.pace import Backoff, Pace
from metastore.coordination.registration import Registration
from metastore.coordination.view import View

__all__ = [
    "Backoff",
    "Deposed",
    "Election",
    "ForeignRecord",
    "Grant",
    "GuardedRecord",
    "GuardedValue",
    "Leader",
    "LeaderView",
    "Lock",
    "Member",
    "MembersChange",
    "MembersView",
    "NotGranted",
    "Pace",
    "Registration",
    "SessionKeeper",
    "View",
    "members",
    "read_guarded",
    "watch_members",
]
