"""Whole topics, end to end: a metadata service, three brokers, and clients that notice nothing of what befalls these.

The idea. Everything that clients were told is noted, in the form in which simulations note it, and judged by the same
judges (tests/topics_simulation, tests/txn_histories): an end to end run differs from a simulation in that its brokers
are processes, which are killed with SIGKILL, frozen with SIGSTOP for longer than their session, and started again.

A run is a list of troubles, made of a seed: kills, freezes, splits, merges, members that come and go, producers that
are opened again, the right to produce taken away, a process that dies with it, a seek, a topic that is new or is
watched no longer. Each comes after so many messages were confirmed. What is done is the same for
the same seed; when it is done, and what meets what, is not.

    whole_plan           the troubles of a seed. Pure
    whole_cluster        the processes, and what the store says of them
    whole_notebook       what is noted
    whole_producers, whole_claimants    applications that send: by key, later, once; as the only ones
    whole_doomed         the process that dies as the only one
    whole_members, whole_groups, whole_queues    applications that receive: in order, by checkpoint, message by message
    whole_rework         an application that does both, in transactions
    whole_transactions   how these begin and end
    whole_cast           all of them, on their topics
    whole_troubles       troubles, made
    whole_rest           what is so in the end
    whole_evidence       what all that is judged by, and the judgement
    whole_run            all of it

What it promises: after the last trouble every range is writable, everything is read to its end, and the notes have no
violation. What it refuses: to measure. The times that it prints are of a machine that does other things as well.

Start reading at whole_run.py.
"""
