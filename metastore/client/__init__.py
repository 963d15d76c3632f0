"""A client for Oxia's protocol: what `tidemark client` stands on, for our server and for a real Oxia alike.

The idea: a thin client in layers, each of which knows only the one below. The pure ones decide, the outer
ones talk:

    values, errors     what callers see: immutable results, and a tree of errors
    routing            which shard a key lives on
    wire, answers      requests made of arguments; results made of answers
    merging            the answers of several shards put into the server's order
    security, failures TLS and tokens; a failed call made into an error of the tree
    transport, channel a gRPC channel for each server; shard assignments, deadlines, second tries
    client             the operations
    session, streams   what lasts: sessions kept alive, change notifications, sequence updates
    command            `tidemark client`, and its parts command_*

What it promises. Keys are `str`, values `bytes`. An answer that says "not done, ask elsewhere" is followed
up until the request's deadline; anything else reaches the caller at once, as one error that says what
happened, to which key, and what to do. A write whose answer is lost is never sent twice, because nobody
knows whether it took effect: the error says so. Several shards look like one: lists, scans and nearest-key
gets come out in the server's order. A `Client` may be used by several threads.

What it refuses. It does not batch, cache or pool: one operation is one request. It does not guess the order
of keys, which a namespace's server decides and never tells: whoever uses `natural` sorting says so. It does
not hide a lost session or a broken stream by quietly starting a new one: what was missed in between is for
the caller to judge, and `NotificationStream.offsets` says where to go on.

Keys that are not UTF-8, which other clients can make on a real Oxia, appear with surrogate escapes, and can
be asked for and deleted in that form.

Callers import `Client` from `client`, `Security` from `security`, results from `values` and errors from
`errors`; this file imports nothing, so that `tidemark` can list its commands without loading gRPC. Start
reading at client.py; then channel.py, where everything meets.
"""
