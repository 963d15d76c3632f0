"""What a store is to the data source: shards that can be pinned, cut into pieces, and read piece by piece.

    model       `SourceStore`, `Piece`: the words; `point`, a state of a store
    directory   an LMDB directory, read in this process beside whoever writes it; `files`, its shards and points of
                them; `past`, how it is read at a point; `leaves`, how records are cut out of LMDB's pages, and
                `entries`, how those of indexes are; `mapping`, the pages themselves
    service     our service, over the network
    contract    everything else that keeps the contract of `metastore.interface`, as well as that can be
    opening     which of them a URL means

Everything here blocks, and works in any process: of Spark's driver, of its planner, of its tasks.
"""
