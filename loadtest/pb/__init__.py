"""Messages that peers speak, as far as the benchmark uses them, generated from `proto/loadtest/pb/*.proto`.

- `etcd_pb2`    the requests and answers of an etcd: what is needed to put, read, watch and have a lease.

Nothing here is written by hand, and nothing here imports the rest of the project. `make proto` writes the files
again; a test fails when that would change them. The numbers of the fields are etcd's: none may change.
"""
