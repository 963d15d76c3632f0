"""Topics at a broker: what clients and other brokers ask about topics of many segments, and who answers.

The idea. A topic has one leader among the brokers, and what changes it goes through him: any other broker refuses by
NotLeader, and says where he is. All else every broker does: it makes topics, reads them, follows them. So a client may
ask anybody, and is sent on once at most. Streams last: a watch, a consumer's session, a claim. Of what is told on them
nothing is queued: a slow client is told the newest state, and later.

    service      the methods of both services, by their names
    desk         what all of them work with; words: values as messages, and back
    directory    topics made, read, listed; policies: what they and their namespaces say: at any broker
    changes      split, merge, delete, subscriptions: at the leader
    numbers      a topic in numbers, and why it did or did not scale: at the leader
    watching     streams that follow a topic, or the topics of a namespace: at any broker
    members      the stream of a consumer that segments are assigned to: at the leader
    claims       the stream of who has the exclusive right to produce: at the leader
    work         what other brokers' leaders ask of the segments that are owned here
    config       names and defaults of all settings
    running      all of it at one broker, from its beginning to its end
    readings     what is read off for the metrics

What it promises. What an answer says has happened, durably. Numbers of slow or broken owners are missing, and keep no
answer back. Streams are bounded in number, and each of them in what waits for it.

What it refuses. It forwards nothing. It decides nothing either: that is what `controller.leading` does.

Start reading at service.py, then changes.py and members.py.
"""
