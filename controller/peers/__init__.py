"""A broker's calls to the other brokers: work on segments that they own, asked for by the leaders of topics here.

    peers     `Peers`: connections, what may be under way, and failures in the words of brokers
    work      `RemoteWork`: the work on the segments of one broker, as `controller.operations` asks for it

What it promises. An error is of the same type as if it had been raised here; a broker that cannot be reached, or does
not answer in time, is SegmentUnavailable, which passes. Calls are bounded in number and in time.

What it refuses. It looks for nobody: whoever asks has been told the address. It asks nothing twice.

Start reading at peers.py.
"""

from controller.peers.peers import Peers
from controller.peers.work import RemoteWork

__all__ = ["Peers", "RemoteWork"]
