"""Decoders: from a record to a typed row, for the records of this project and for those of Apache Pulsar 5.

The idea. Whoever reads transactions to find out how they are, a doctor or an auditor, should not care who wrote them. A
decoder is one pure function,

    decode(key, value, created_ms, modified_ms) -> Row | None

of a record and the two times of its version, and both decoders answer in the same rows; None for a record that has
nothing to do with transactions. So an operator of a Pulsar cluster has the same tools, and a job may decode a billion
records one by one, wherever it likes.

    rows        the rows
    fields      fields of JSON with types and bounds
    tidemark    the decoder of our records
    pulsar      the decoder of Pulsar's

What it promises. A decoder never raises: what stands at a place of a transaction's record and makes no sense is an
`OddRow` with the reason. What it cannot know it says is unknown, and does not guess.

What it refuses. I/O, and judging: whether rows fit each other is for their readers to say.

Start reading at rows.py.
"""
