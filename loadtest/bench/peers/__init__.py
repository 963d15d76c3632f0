"""The same work on Tidemark, Oxia, etcd and ZooKeeper, each through a lean client of its own protocol.

The idea. A kind of work (`work.KINDS`) says what is to happen: overwrite a record, read 64 at a time, list the
children of a folder. Every peer has a *dialect* that says it in its own protocol, over the same keys and values, as
bytes made before the clock starts. Tidemark and Oxia get the very same bytes. The clients are one thread and one
socket each, with frames made by hand: HTTP/2 for the first three, jute for ZooKeeper; what a request costs the
client is told beside every figure.

It promises
- durable writes on every side: etcd syncs its log, ZooKeeper runs with forceSync, all on the same disk;
- no contest for the processor: while one server works the others are stopped by signal, and the main lines are
  measured again with one server alone on the machine, from its start to its end;
- a load that nobody here wrote: `oxia perf`, on Tidemark and on Oxia.

It refuses
- to run with a peer missing: it says in one line what to install;
- to tune anybody: the servers run as they come, but for what `programs` says and why.

Start reading in `work`, then `lines`; `oxia`, `etcd` and `zookeeper` are the dialects.
"""
