"""`lmdb:///path`: the engine in this process, behind the contract. What one program needs, with nothing beside it.

The idea. The store is the same one that a server serves, in the same directory, without the network. The engine
blocks, so threads do what may take a while and the event loop does the rest: writes go to a thread that drives the
rounds of its shards, all that the loop has submitted in one turn together; answers come back all at once; scans are
read chunk by chunk on a few reader threads; a housekeeper keeps sessions alive and looks after expiry and the log.

What it promises. All of the contract, with every capability. What was acknowledged survives the death of the process
(with `sync=false` not a power cut). The event loop never waits for a disk. A directory belongs to one process at a
time; a server can open it afterwards, and the other way round. Closing is bounded.

What it refuses. Two processes on one directory: Unavailable, for then a server is what is wanted. Changing the number
of shards or the order of keys of a directory that exists. It sets nothing that is the whole process's.

    opening       the URL, the directory, the shards
    store         the contract
    shards        a shard as the event loop sees it
    threads       between the loop and the threads
    reading, watching, sequences, sessions    what their names say
    housekeeping  what has to be done from time to time
    records, failures    the engine's bytes and errors as those of the contract

Start reading at store.py, then threads.py.
"""

from metastore.providers.local.opening import open_local

__all__ = ["open_local"]
