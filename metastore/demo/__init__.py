"""The main jobs of the store, shown in a minute: `make demo`, or `python -m metastore.demo`.

The idea: a story in chapters. A service is started in a folder of its own and used through the contract, as any program
would use it: records, sequences and indexes, sessions, a watch, a transaction, an election; and for comparison the same
store embedded in this process. In the last chapter four writers are at work when the service is killed with SIGKILL; it
is started again, and what was acknowledged is counted.

What it promises. It prints what really happened and not what should have, and its exit code is 1 if anything that was
acknowledged is lost. It leaves nothing behind: no process, no file.

What it refuses. It measures nothing (that is `make bench`), and it proves nothing that the tests do not prove harder.

    __main__    the order of the chapters
    stage       the service
    records     records, sequences, indexes, sessions; the store embedded
    changes     watches, transactions
    leaders     an election
    crash       kill -9

Each chapter stands alone: start reading wherever you like.
"""
