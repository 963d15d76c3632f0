"""The messages of transactions and segments, generated from `proto/txn/pb/*.proto`.

- `entry_pb2`    what an entry of a segment's log carries around a producer's bytes.

Nothing here is written by hand, and nothing here imports the rest of the project. `make proto` writes the files again;
a test fails when that would change them. To change a message, change its `.proto` file: numbers of fields stay as they
are, for entries outlive the version that wrote them.
"""
