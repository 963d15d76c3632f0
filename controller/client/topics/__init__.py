"""Topics of many segments, as a client sees them: administration, what is known of their layouts, and their producers.

The idea. A topic's layout changes at any time, by itself; whoever uses it is told by a watch, and asks nobody before
each message. What the watch does not know yet a segment says: that it is sealed. So nothing here has to be up to date
for what is sent to be right.

    admin          `client.topics`: creating, describing, splitting, merging, deleting; subscriptions, policies, numbers
    descriptions   what these say
    layouts        the watch of a topic, one for all of a client's producers and consumers of it
    namespaces     the watch of a namespace
    following      one stream after the other from brokers that tell
    ids            where a message is in a topic
    producer       sending to a topic

What it promises. What is older than what is known is dropped. What only the leader of a topic can do reaches it,
whoever is asked first.

What it refuses. It decides nothing: splits, merges and assignments are brokers' decisions.

Start reading at layouts.py, then producer.
"""
