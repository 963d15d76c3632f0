"""Posts: what one broker at a time does, of which there are any number. Segments are posts, and so are topics.

The idea. Whoever holds the grant of a post has it. A broker looks at three watches, however many posts of a kind there
are: all posts, all their holders, all live brokers. What nobody holds is taken over without anybody asking for it. Each
post has its own order of the brokers, which all of them compute alike (rendezvous hashing): the first of the line
claims it at once, the others only if it is still free when their turn has come. What is held stays where it is.

    brokers    what brokers say of themselves; who stands first
    chart      the live picture: posts, holders, brokers
    tenure     one attempt to hold a post, from waiting to letting go
    takeover   which tenures a broker begins, and when it gives one up

What it promises. One holder at a time. A post whose holder dies is held again as soon as its session has ended and a
broker lives that can have it; at once where the holder resigns. What fails is tried again, under another grant, here
with growing pauses and by others meanwhile. Nothing polls, and there is one session for each broker.

What it refuses. It does not know what a post is about: `Means` says how one is claimed, and how it is served. It moves
nothing to balance the load.

Start reading at tenure.py, then takeover.py.
"""

from txn.posts.brokers import GROUP, Broker, Owner, line_up
from txn.posts.chart import Chart, News
from txn.posts.takeover import Takeover
from txn.posts.tenure import Means, Phase, Served, ServedT, Tenure

__all__ = [
    "GROUP",
    "Broker",
    "Chart",
    "Means",
    "News",
    "Owner",
    "Phase",
    "Served",
    "ServedT",
    "Takeover",
    "Tenure",
    "line_up",
]
