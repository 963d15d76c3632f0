"""Transactions and topics, shown in half a minute: the second part of `make demo`, or `python -m controller.demo`.

The idea. A shop in chapters: orders come in, and for each of them an invoice goes out, in one transaction with the
acknowledgement of the order. It runs as it would in earnest: a metadata service, and a broker, each a process of its
own, and a worker that uses the client. In the middle of it the broker is killed with SIGKILL and started again; the
worker is told nothing of that. In the end the invoices are counted. Then a transaction is left open, and the doctor is
asked what holds the invoices up. At last a topic on `tidemark standalone` is loaded until it splits by itself, with
transactions running through it, and left alone until it merges; its segments are drawn, and its messages counted.

What it promises. It prints what really happened, and its exit code is 1 if an order has not exactly one invoice,
or if a message of the topic is lost, doubled, or out of its key's order. It leaves nothing behind: no process, no file.

What it refuses. It measures nothing, and it proves nothing that the tests do not prove harder.

    __main__    the order of the chapters
    stage       the processes
    shop        orders to invoices, through kill -9
    doctor      an open transaction, and who finds it
    scaling     a topic that splits and merges by itself

Each chapter stands alone: start reading wherever you like.
"""
