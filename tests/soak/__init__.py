"""The soak: everything at once, for as long as one likes, while everything is killed; then every checker has its say.

The idea. One metadata service and three brokers go through *epochs*. In each epoch there is, at the same time: a whole
run of topics (producers, consumers of all kinds, transactions, splits and merges: tests/topics_end_to_end), runs of the
watch contract with sessions (tests/watch_contract), and rounds of concurrent clients on single records
(tests/linearizability), each in a namespace of its own. Brokers are killed, frozen and stopped, and the metadata
service is killed under all of them, at moments that follow from the seed. At the end of an epoch each of the three is
judged by its own checker, over all that it noted; then the notes are dropped, so that the memory of an hour is that of
an epoch.

Nobody can tell a leak from a process that is killed every few seconds. So the last part of the time is *calm*: the same
work, and nothing is killed. After each of its epochs every process is measured: memory, open files, and what it has on
disk. What keeps growing is a failure.

    trends        whether figures grow. Pure
    leaks         the figures of processes
    grounds       the metadata service with its namespaces, which several may kill
    epochs        one epoch
    notes         the notes of an epoch that failed, in a file
    judging       the verdicts on notes, stored ones included
    long_run      all of it: troubled epochs, calm ones, and the audit of all transactions at the end

`make soak` runs it for an hour (SOAK_MINUTES); the suite runs one short epoch. Start reading at long_run.py.
"""
