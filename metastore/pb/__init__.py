"""The messages of the wire protocol, generated from `proto/metastore/pb/*.proto`.

- `oxia_pb2`      the protocol of an Oxia server: field numbers and types are its clients'. Text is declared
                  as `bytes`: the same form on the wire, and the server itself judges what is not UTF-8.
- `compat_pb2`    the same service under its older name, which clients in Python and Java still call.
- `envelope_pb2`  the outer level of the two hot requests, with their operations left as bytes.

Nothing here is written by hand, and nothing here imports the rest of the project. `make proto` writes the
files again; a test fails when that would change them. To change a message, change its `.proto` file.
"""
