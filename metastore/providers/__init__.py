"""The stores behind the URLs: each package keeps the contract of `metastore.interface` over something else.

    memory      `memory://`: plain Python in this process, with a clock and faults that tests control
    local       `lmdb:///path`: the engine in this process; what one program needs, with nothing to run beside it
    wire        `oxia://host:port/namespace`: our service, or a real Oxia
    zookeeper   `zk://host:port/path`: a ZooKeeper ensemble; slower, never wrong

They are found by entry points (group `tidemark.stores`), as any other package's would be: nothing here is imported by
name. What a provider promises is the contract's and tests/conformance/store checks it for all of them; what it cannot
do its `capabilities` say. Start reading at memory, the shortest.
"""
