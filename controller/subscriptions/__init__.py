"""The subscriptions of a topic on its leader: who consumes, who reads what, and who is told.

The idea. A consumer is known by its name. While it is connected, and for a while after its connection is gone (its
grace), it is a member of its subscription, and the segments that may be read are divided among the members. Everything
that changes that division (somebody joins, leaves or does not come back in time; the layout changes; a segment is
drained, or is to be read again) is a wish; one task for each subscription brings wishes into effect, as many at a time
as there are: the next division is computed, written down, and then told to those for whom something is different.

One record decides: the subscription's own, which names the members, what each of them has, and the generation of that
division. Records of consumers are beside it because other software counts them; where they differ, the subscription's
is right.

    records        a subscription's record, as JSON that Pulsar's tools read as theirs
    sessions       who is connected and who is awaited: a pure value
    group          who reads what, and since which generation: a pure value
    messages       what a consumer is told
    store          the records, written on the strength of the leader's grant
    coordinator    one subscription: wishes, timers, and pushes
    subscriptions  all of a topic's

What it promises. What a consumer is told is durable before it is told, and carries the term of the leader and the
generation, so that what is older can be dropped. A consumer that comes back by its name within its grace moves
nothing. Nobody is told anything who has what he had. A new leader goes on with the division that it finds: nobody is
withdrawn, and everybody has a whole grace to come back in. A connection that another one of the same name has replaced
is told so, and has no say any more. A leader that is deposed changes no division.

What it refuses. Queue subscriptions are only recorded here: their consumers read all segments and share each of them.
It does not find out what is drained, and touches no segment: both are its leader's.

Start reading at group.py, then coordinator.py.
"""

from controller.subscriptions.coordinator import Attachment, Coordinator, Options
from controller.subscriptions.errors import DamagedSubscription, LimitReached, MemberReplaced, WrongKind
from controller.subscriptions.group import Group, Strategy
from controller.subscriptions.messages import Assigned, AssignedSegment, Ended, EndReason, Message
from controller.subscriptions.records import SubscriptionKind, SubscriptionRecord
from controller.subscriptions.sessions import Session, Sessions
from controller.subscriptions.subscriptions import Subscriptions

__all__ = [
    "Assigned",
    "AssignedSegment",
    "Attachment",
    "Coordinator",
    "DamagedSubscription",
    "EndReason",
    "Ended",
    "Group",
    "LimitReached",
    "MemberReplaced",
    "Message",
    "Options",
    "Session",
    "Sessions",
    "Strategy",
    "SubscriptionKind",
    "SubscriptionRecord",
    "Subscriptions",
    "WrongKind",
]
