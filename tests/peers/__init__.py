"""Comparison with software that is not ours: a real Oxia server, the released Oxia client for Java, and Pulsar 5.

The idea: the protocol's description was written by us, so our tests could agree with our server in a
misunderstanding. Here nobody of ours is the judge: the same requests go to a real Oxia and to this project's
server, and the answers must be equal field by field; a client that knows nothing of us must find what it
expects. A whole Pulsar keeps its metadata with us, and what the audit and the doctor say of its transactions
must be what became of them.

It promises that only what must differ is made equal before comparing: times, ids of sessions, offsets. It
refuses to compare what Oxia is known to do wrong; `support.scripts` keeps away from it and says where.

The tests carry the mark `peers` and need OXIA_BIN, the path of an Oxia binary; those in Java need Maven.
Start reading at `player.py`, then `test_random_scripts.py`; for Pulsar at `live_pulsar.py`, then
`test_pulsar_live.py`.
"""
