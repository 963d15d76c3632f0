"""Views: records of transactions and segments as typed columns, for Spark.

    spark.read.format("tidemark").option("store", URL).option("view", "ops").load()

The idea. A view says where records of one kind are and makes columns of a batch of them. What a record means is decided
by `txn.decoding` and by the code that its writer reads it with; a view does the same for thousands at a time, and where
it is not certain that this comes to the same it asks that code.

    ids, form     what views are made of: `form` has the columns, swift and one by one
    headers       `headers`; `usual`, those that need not be parsed, by `letters`
    operations    `ops`; `laid`, those that are not JSON
    outcomes      `applied`, `aborted`
    parts         `transaction_parts`: these put together; `fragments`, what they add up to, `meeting`, with headers,
                  `expected`, what indexes should have of them
    sums          `entry_sums`: entries of indexes, added up, by `hashing`
    segments      `segments`, `segment_state`, `cursors`, `numbers`
    pulsar        the same of an Apache Pulsar 5, and `pulsar_events`, `pulsar_watermarks`,
                `pulsar_participants`

What it promises. The columns say what the decoder says, for every record. A record that cannot be read is a row with
`odd_key` and `odd`, and nothing else.

What it refuses. To judge.

Start reading at headers.py, then form.py.
"""
