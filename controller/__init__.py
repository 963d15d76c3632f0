"""Brokers, and the clients of brokers: transactions over segments as a service.

The idea. Everything that decides is below, in `txn`: here it gets a front. A broker is one process that hosts segments,
coordinates transactions and takes part in the sweeps; any number of them share one metadata store, and need to know
nothing else of each other. A client goes to any broker, is shown the way to the owner of a segment, and follows when
that changes.

    errors      the errors of brokers, and all errors as names for the wire: the same ones on both sides
    addresses   HOST:PORT
    broker      the service, `Broker`, for any process
    client      the API for applications, with and without `await`
    pb          generated messages of the service `tidemark.broker.v1.Broker`

    layout, assignment, autoscale, topics    topics of many segments: their shape, who gets which segment, when one is
                split or merged, and their records
    operations, subscriptions, watches, leading    what becomes of a topic, who consumes it, who is told, who leads it
    peers       a broker's calls to other brokers
    admin, console    administration of topics: REST, and `tidemark topics`
    serving     `tidemark broker`, with the admin service beside it
    standalone  metadata service, broker and admin service in one: `tidemark standalone`

What it promises. What was answered is durable. A stream that breaks loses nothing that was answered and repeats
nothing that was stored: a producer's resends are recognised, and who reads goes on from a position. The errors of the
service are those of `txn`, by name and class. Nothing that a client sends takes more than named limits allow.

What it refuses. A broker keeps no state of its own but the local logs of the segments it owns, where those are chosen.

Start reading at proto/controller/pb/broker.proto, then broker/.
"""
