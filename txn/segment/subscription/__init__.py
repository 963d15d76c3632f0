"""Subscriptions: what of a segment was taken, by whom, and what is to come (again).

The idea. A subscription is a cursor, kept durable by the segment's owner alone, and beside it what open transactions
have acknowledged. An acknowledgement in a transaction takes hold of its messages before anything is written, so two
transactions never both get one; it is promised when its operation record is durable; and it counts when the header says
that the transaction was committed. Then the cursor is written first, and the operation records go after it. So at every
instant a restart finds either the cursor that has it, or the record that says it.

What is delivered is everything that may be read and is neither acknowledged nor held. What is held is not delivered,
to whomever, however often consumers come and go, until its transaction aborts; then it comes again.

    claims         sets of messages: entries, parts of batches, everything up to somewhere
    pending        who holds what, and what is a conflict: the rules in prose
    cursor_record  the record of a cursor; whether there is a subscription
    keeper         one cursor, kept durable: many changes in one write
    acking         the part of one transaction
    recording      held, then recorded, then promised
    settling       begun, settled when it is decided, taken over after a restart
    lateness       which records of earlier owners were never a promise
    backlog        what is to be delivered, is delivered, comes again; what all kinds have in common
    entries        the same where an entry is with one consumer; turns: who gets it
    shares         the same where it is shared by keys, message by message; keys: who gets what
    owed           what comes again to nobody but who has taken it; hands: who has taken what last
    withheld       what nobody else gets of a bucket until a transaction is decided
    delays         what waits for its time
    attached       who may be there beside whom; consumer: one of those
    dispatcher     reads, and has handed out; ways: what it asks
    reader         reads without a cursor
    subscription   the parts put together; numbers: what an operator wants to know
    values         kinds, limits, what is delivered; errors: what is refused

What it promises. No message whose acknowledgement was committed is delivered once a consumer that comes later asks, and
none is lost whose transaction was aborted. Where several consumers share a segment, none acknowledges what another one
has taken since: `AckTooLate`. So nobody takes a message from here, or out of what he has from here, after an
acknowledgement of it was confirmed, as long as he hears when his stream ends. Nobody polls: the dispatcher sleeps until
it is woken. What a consumer, a transaction, a subscription can have under way is bounded, by names.

What it does not promise. A message may be delivered more than once before it is acknowledged: after a consumer went,
was too slow, or the segment changed hands. How often it was delivered is counted by one owner, and forgotten by the
next.

What it refuses. To guess: an acknowledgement that fits no entry is an error. It decides no transaction, and of entries
it knows only whether they are visible.

Start reading at pending.py, then settling.py, then backlog.py, entries.py and shares.py.
"""

from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.cursor_record import DELETING, has_cursor, read_cursor, subscriptions_of
from txn.segment.subscription.errors import (
    AckTooLate,
    ConsumerBusy,
    ConsumerClosed,
    ConsumerReplaced,
    EndOfSegment,
    SubscriptionClosed,
    SubscriptionDeleted,
)
from txn.segment.subscription.numbers import SubscriptionStats
from txn.segment.subscription.reader import Reader
from txn.segment.subscription.subscription import ACKS_AT_ONCE_MAX, Subscription, Surroundings
from txn.segment.subscription.values import (
    BUCKETS_MAX,
    Assigned,
    Delivery,
    InitialPosition,
    Nack,
    Readable,
    SubscriptionKind,
)

__all__ = [
    "ACKS_AT_ONCE_MAX",
    "BUCKETS_MAX",
    "DELETING",
    "AckTooLate",
    "Assigned",
    "Consumer",
    "ConsumerBusy",
    "ConsumerClosed",
    "ConsumerReplaced",
    "Delivery",
    "EndOfSegment",
    "InitialPosition",
    "Nack",
    "Readable",
    "Reader",
    "Subscription",
    "SubscriptionClosed",
    "SubscriptionDeleted",
    "SubscriptionKind",
    "SubscriptionStats",
    "Surroundings",
    "has_cursor",
    "read_cursor",
    "subscriptions_of",
]
