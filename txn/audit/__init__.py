"""The audit: proves with Spark, over all records of a store, that no transaction is stuck, lost or leaked.

The idea. What must always hold of transactions can be said of their records, so whoever reads all of them at one point
can tell whether it does. Records become typed columns, columns become a few tables that are joined once, and each rule
is a condition on their rows, asked while they are read: what no rule objects to is not kept. All of that is Spark's to
run: on one machine, or on many.

    views       records as columns: entry points of the data source
    dialect     whose records: ours, or an Apache Pulsar's; and how long things may take
    source      where rows come from: a store at one point, or DataFrames
    reading     what is read as it is
    tables      what the rules look at, joined once; `participants`, what is known of each
    rules       the rules
    engine      evaluates them: violations come out, with evidence
    ledger      what there was, kept for longer than the store keeps it
    report      what was found as a page with charts
    keys        the keys of the records that violations are about
    command, help, running, recording, session, starting, listing, telling, words
                `tidemark audit`: options, texts, sessions of Spark, what is printed
    planting, faults, pulsar_faults
                stores with known violations, to audit the audit with

What it promises. A violation names what it is about and shows what it was judged by. What is found is what was there at
one point of each shard; what is younger than a step takes is not judged. No more than a bounded number of rows comes to
the driver.

What it refuses. To write, or to repair: `tidemark txn` and the brokers do that. It does not read entries of segments,
so it says nothing about what is in them.

Start reading at tables.py, then rules/operations.py. docs/audit.md describes every rule.
"""
