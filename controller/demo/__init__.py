"""Transactions, shown in half a minute: the second part of `make demo`, or `python -m controller.demo`.

The idea. A shop in chapters: orders come in, and for each of them an invoice goes out, in one transaction with the
acknowledgement of the order. It runs as it would in earnest: a metadata service, and a broker, each a process of its
own, and a worker that uses the client. In the middle of it the broker is killed with SIGKILL and started again; the
worker is told nothing of that. In the end the invoices are counted. Then a transaction is left open, and the doctor is
asked what holds the invoices up.

What it promises. It prints what really happened, and its exit code is 1 if an order has not exactly one invoice. It
leaves nothing behind: no process, no file.

What it refuses. It measures nothing, and it proves nothing that the tests do not prove harder.

    __main__    the order of the chapters
    stage       the processes
    shop        orders to invoices, through kill -9
    doctor      an open transaction, and who finds it

Each chapter stands alone: start reading wherever you like.
"""
