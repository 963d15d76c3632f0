"""Everything in one command: `tidemark standalone`, and `async with Standalone(config)` in a program.

The idea. A broker needs a metadata service, and who administers topics needs the admin service. Whoever begins has none
of them and wants to know nothing of them: so one command starts all three, on this machine, with their data under one
directory. Nothing here is a smaller edition of anything. The metadata service is `tidemark metastore` as a process of
its own, so that it has a processor of its own, and Oxia clients and all tools find it at an address; broker and admin
service are in this process. Other brokers may be started on the same store, and the day that each part is to run by
itself, it is started by itself on its part of the directory.

    config        what may be told; `StandaloneConfig`
    standalone    `Standalone`: the parts in their order
    metadata      the metadata service: started, kept alive, ended; relaying: what it logs, as log lines of this process
    locking       whose directory it is, and whether something of an earlier process still uses it
    command       `tidemark standalone`

What it promises. When it is ready everything is. No process is left behind, however this one ends: kill -9 included.
A metadata service that dies is started again at the same address, and nothing that was answered is lost by that. A
start after a crash waits for the rest of the crashed process, and finds everything.

What it refuses. A directory that another one uses. It replicates nothing, and it serves the metadata service without
TLS and tokens: to this machine only, unless it is told that the network is trusted.

Start reading at standalone.py, then metadata.py.
"""

from controller.standalone.config import StandaloneConfig
from controller.standalone.locking import DirectoryTaken
from controller.standalone.metadata import MetadataFailed
from controller.standalone.standalone import Standalone

__all__ = ["DirectoryTaken", "MetadataFailed", "Standalone", "StandaloneConfig"]
