"""The second service of the port: what the store can do beyond Oxia's protocol. `tidemark.metastore.v1.Metastore`.

The idea. Oxia's clients see a plain Oxia; who asks for more finds it beside that, under a name of its own, with the
same shards, the same rules for every call and the same details in errors. Transactions and index scans are calls like
others. Watches are many, thousands on one stream, and so they are not calls: a stream carries requests that open and
end them, and what they have to tell.

What it promises.
- A watch costs work when something happens to its range, or when it is due to say how far it has come; never because
  another watch of its stream, or another stream, has news.
- Each watch is held back by its own credit and no other's. Watches with news take turns, and so do streams.
- What waits for the reader of a stream is bounded, however many watches it has and however far behind they are: news
  are read from the shard when there is room for them. What is refused is refused by watch; the stream goes on.

What it refuses. It knows no ranges and no logs: what matches a watch is `metastore.watch`'s knowledge. It keeps nothing
for a client that is away: who comes back says from where to go on.

Start reading at `watch_stream` (one stream), then `turns` (whose turn it is) and `messages` (bytes). `calls` has the
other methods, `bulk` those that read very much, in `portions`.
"""
