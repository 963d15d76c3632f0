"""Whole topics by chance: whether they are what they promise to be, whatever happens to whom.

The idea. Brokers own segments, lead topics and serve watches, over one store in memory and with a time that passes when
told to; there is no wire. Clients write by key, follow their assignments, share queues, read by checkpoint, in
transactions and without. Meanwhile topics split, merge, come and go, by command and by themselves; members leave, die
silently, are replaced and come back; brokers stop, die, freeze, lose their sessions, at random and at every named point
of the code that changes topics; calls of the store fail, wait, get lost and arrive late. Then there is peace: every
range has to be writable again within a time, everything is read to its end, and all is judged from what was noted. The
course of a simulation follows from its seed.

What is judged of single segments, `txn_histories` judges: transactions, acknowledgements, order, nothing lost and
nothing twice. Beside that, of topics:

- a message lies in one segment, of its hash, behind the older ones of its key; once a segment has taken something none
  that it comes from does;
- everything that was acknowledged to its sender comes to every subscription, and to streams and groups each key in its
  order, over all splits, merges and members;
- what is delayed comes to no queue before its time;
- who has the exclusive right to produce is the only one, and nothing is there that somebody sent who had lost it;
- in every layout that was ever committed the active segments tile the ring, and nothing comes back that was gone;
- in the end each segment that may be read is one member's, or shared, and nothing is left of what is gone.

    topic_notes        what is noted, beside the notes of segments
    topic_history      all of it, looked up; topic_lies: what can be wrong
    topic_logs, topic_deliveries, topic_shapes, topic_rights: the judges; topic_checker: their door
    topic_stage        brokers and the time; topic_observer: looks into the store
    topic_clients      how leaders are found, and layouts followed
    topic_producers, topic_members, topic_lanes: clients; topic_actors: what they do all the time
    topic_chaos        what goes wrong
    topic_simulation   a whole run
    topic_story        histories made by hand, for the tests of the checker

Start reading at topic_notes.py, then topic_simulation.py.
"""
