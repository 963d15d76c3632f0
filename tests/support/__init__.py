"""What the tests share: real servers in processes of their own, and a client that hides nothing.

The idea: a test of a service should talk to the service. So there is one way to start a server
(`server.py`: a process, a folder, two ports, always cleaned up) and one way to talk to it (`wire.py`: the
messages as they are on the wire, and the whole status that ended a call). Neither knows what the right answer
is; that is in the tests, and in the recorded conversations that `transcripts` plays.

It promises that whatever a test started is gone when the test ends, that every wait is bounded, and that a
failure shows the end of the server's log. It refuses to retry, to hide a status, and to sleep until something
may have happened.

Start reading at `server.py`, then `wire.py`.
"""
