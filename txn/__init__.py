"""Transactions over segments: atomic writes and acknowledgements whose whole state is records in a metadata store.

The idea is one sentence of PIP-473: the decision does not belong into the data. A transaction is a header record, and
its outcome is one compare-and-set of that record. What it did are operation records beside it. Everybody who took part
watches the header and carries the outcome out for himself: nobody is called, nobody is waited for, and a segment that
was sealed, trimmed or taken over in the meantime makes no difference.

    model         ids, headers, operations, and the indexes that lead to them: pure values
    outcomes      what became of transactions: one watch for each, shared by all who took part
    coordinator   begins transactions, decides them, sweeps up behind them
    segment       the segment's log, local or in the store; what is written to it, and what is taken from it
    posts         which broker does what, where one at a time does: the way to a post and from it
    hosting       which broker owns which segment, and how one follows another
    decoding      from a record to a typed row, for our records and for Pulsar's
    doctor        what the records say, for operators: `tidemark txn`
    audit         whether the records are as they must be, all of them: `tidemark audit`
    pb            generated messages

What it promises. A committed transaction is seen whole, an aborted one not at all, by every reader, old or new, for as
long as the data is kept. The intent is durable before the entry, the outcome before the operation records go, the
operation records before the header: whatever is cut in the middle is finished by whoever comes next.

What it refuses. A transaction does not outlive its deadline, and a commit that comes later loses. There is no way to
change a decision.

Start reading at model/.
"""
