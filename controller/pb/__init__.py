"""Generated messages of the broker's service; the sources are in proto/controller/pb.

Nothing here is written by hand: `make proto` generates it, and a test compares. It promises that one number of the
wire always means the same. It refuses to hold any logic: `controller.broker` is what answers with these messages.

Start reading at proto/controller/pb/broker.proto, which says in prose what every message means.
"""
