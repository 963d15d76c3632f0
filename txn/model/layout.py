"""How an operation's value is laid out: numbers at fixed places, so that millions of records are read without parsing.

    format u8 = 2 | flags u8 | 0 u16 | lengths of three texts u32: segment, subscription, broker
    ledger u64 | first entry u64 | last entry u64 | term u64 | written, in ms u64
    messages of the batch u32 | how many of them are acknowledged u32
    segment | subscription | broker | numbers of the acknowledged messages, u32 each

All little-endian, texts in UTF-8. The first version of these values was JSON, whose first byte is `{`.
"""

from __future__ import annotations

from struct import Struct, pack, unpack_from
from typing import NamedTuple

from txn.model.errors import RecordDamaged

FORMAT = 2
HEAD = Struct("<BBHIIIQQQQQII")
NUMBER_BYTES = 4


ACK, CUMULATIVE, SEVERAL = 1, 2, 4
"""Flags: what an operation is. One that is SEVERAL says which entry is its last. They are numbers, since each
acknowledgement makes them."""
FLAGS = ACK | CUMULATIVE | SEVERAL


class Laid(NamedTuple):
    """What a value says."""

    flags: int
    segment: str
    subscription: str
    broker: str
    ledger: int
    first_entry: int
    last_entry: int
    term: int
    written_ms: int
    batch_size: int
    batch: tuple[int, ...]


def laid_out(said: Laid) -> bytes:
    """The value that says this."""
    texts = [text.encode() for text in (said.segment, said.subscription, said.broker)]
    numbers = (said.ledger, said.first_entry, said.last_entry, said.term, said.written_ms, said.batch_size)
    head = HEAD.pack(FORMAT, said.flags, 0, *map(len, texts), *numbers, len(said.batch))
    return b"".join((head, *texts, pack(f"<{len(said.batch)}I", *said.batch) if said.batch else b""))


def read_layout(value: bytes) -> Laid:
    """What a value of this format says; RecordDamaged if it is not as long as it says, or has flags unknown here."""
    if len(value) < HEAD.size:
        raise RecordDamaged(f"a transaction operation of {len(value)} bytes: {value[:200]!r}")
    _, flags, nothing, *lengths, ledger, first, last, term, written_ms, batch_size, count = HEAD.unpack_from(value)
    segment_end = HEAD.size + lengths[0]
    subscription_end = segment_end + lengths[1]
    texts_end = subscription_end + lengths[2]
    if nothing or flags & ~FLAGS or len(value) != texts_end + NUMBER_BYTES * count:
        raise RecordDamaged(f"a transaction operation is not as it says: {value[:200]!r}")
    try:
        segment = value[HEAD.size : segment_end].decode()
        subscription = value[segment_end:subscription_end].decode()
        broker = value[subscription_end:texts_end].decode()
    except UnicodeDecodeError as error:
        raise RecordDamaged(f"a transaction operation names what is no text: {value[:200]!r}") from error
    batch = unpack_from(f"<{count}I", value, texts_end)
    return Laid(flags, segment, subscription, broker, ledger, first, last, term, written_ms, batch_size, batch)
