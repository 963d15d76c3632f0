"""The records of a transaction, as pure values: what is written, under which key, and which index leads there.

    ids          `TxnId`, which bears the mark of its kind
    position     where an entry is in a segment
    header       the one record whose change is the decision
    operation    one record for each write or acknowledgement of a transaction
    applied      what a participant leaves when it has carried the outcome out
    aborted      what a segment remembers of an aborted transaction
    layout       how an operation's value is laid out
    fields       reading the fields of a record
    paths        keys, partitions, index names, secondary keys
    errors       what callers of a transaction see: retriable, abortable, fatal

It promises that what it encodes it decodes again, that it refuses what it does not understand by name, and that two
different things never have the same key. It refuses to do anything: there is no I/O here.

Start reading at header.py.
"""
