"""Processes: a broker with what stands beside it, as commands.

The idea. A broker is whole by itself, and knows nothing of administration over HTTP. Here both are put into one
process: the admin service is a client of the broker beside it, by the same address that everybody uses.

    command    `tidemark broker`
    beside     the admin service of a broker

What it promises. The admin service is there before the process says that it is ready, and gone before the broker ends.
It lets in whom the broker lets in, and its certificate is the broker's.

What it refuses. Settings of its own: they are the broker's, and one more, `admin`.

Start reading at beside.py.
"""
