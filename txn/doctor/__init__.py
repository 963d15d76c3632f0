"""The doctor: looks at the transactions of a store, says how they are, and aborts one where an operator wants that.

The idea. The whole state of transactions is records, so whoever can read the store can tell what is open, what each
transaction did, and what holds a segment up: no broker is asked, and none need run. Records become rows by a decoder,
ours or Pulsar's; everything behind that is the same for both, and most of it is pure.

    layout         where records are found: keys, partitions, indexes
    reading        `Records`: rows out of a store, and whose records it holds
    participation  operations, added up by participant
    listing        which transactions there are
    portrait       one transaction with all that has happened to it
    drawing        its time line in characters
    following      what happens to it from now on
    horizon        what holds the read horizon of a segment
    aborting       what an abort does, and the abort
    statistics     all transactions, counted
    command, arguments, help
                   `tidemark txn`: operations, options, texts; loads nothing that only an operation needs
    running        from options to an open store; errors to exit codes
    actions        one function for each operation
    texts, progress
                   what is printed

What it promises. It writes one record, in `abort`, by the coordinator's own compare-and-set. A record that makes no
sense is named and left out. What it holds in memory is bounded by what is not settled, not by what there has been.

What it refuses. To repair: participants finish by themselves, and what they leave is the auditor's to judge. It does
not read entries, so it counts entries of transactions, which have records, and no plain ones.

Start reading at portrait.py, then horizon.py.
"""
