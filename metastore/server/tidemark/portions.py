"""Bulk scans as messages: records or leaves that were read in portions, several in each message, none copied twice."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import chain, groupby

from metastore.engine.index_keys import decode_entry
from metastore.engine.keys import KeyOrder
from metastore.engine.leaves import Leaves
from metastore.engine.points import Page
from metastore.engine.record import varint
from metastore.pb import tidemark_pb2
from metastore.server import wire

RECORDS_TAG, PAGES_TAG, LENGTHS_TAG, SECONDARY_KEY_TAG = b"\x0a", b"\x22", b"\x12", b"\x1a"
"""Of the fields of a BulkScanResponse."""


def portion_messages(portions: Iterator[Leaves | Page], rows: int) -> Iterator[bytes]:
    """Messages of about so many records, as they come."""
    for kind, alike in groupby(portions, type):
        if kind is Page:
            yield from record_messages((each for each in alike if isinstance(each, Page)), None, rows)
        else:
            yield from _leaf_messages((each for each in alike if isinstance(each, Leaves)), rows)


def _leaf_messages(portions: Iterator[Leaves], rows: int) -> Iterator[bytes]:
    waiting: list[Leaves] = []
    records = size = 0
    for portion in portions:
        # Only the first leaf of a message may begin before the range, and no portion ends within one that goes on.
        assert not (waiting and portion.skipped)
        more = sum(portion.lengths)
        if waiting and (records + portion.records > rows or size + more > wire.MESSAGE_BYTES):
            yield _leaf_message(waiting, size)
            waiting, records, size = [], 0, 0
        waiting.append(portion)
        records += portion.records
        size += more
    if waiting:
        yield _leaf_message(waiting, size)


def _leaf_message(portions: list[Leaves], size: int) -> bytes:
    pieces = chain.from_iterable(portion.pieces for portion in portions)
    lengths = list(chain.from_iterable(portion.lengths for portion in portions))
    told = sum(portion.records for portion in portions)
    rest = tidemark_pb2.BulkScanResponse(skipped=portions[0].skipped, told=told).SerializeToString()
    return b"".join((PAGES_TAG, varint(size), *pieces, *_lengths(lengths), rest))


def record_messages(pages: Iterator[Page], index_order: KeyOrder | None, rows: int) -> Iterator[bytes]:
    """Messages of about so many records, or of so many bytes; one record always fits."""
    records: list[bytes] = []
    lengths: list[int] = []
    keys: list[bytes] = []
    size = 0
    for page in _fitting(pages):
        page_bytes = sum(page.lengths)
        if records and (len(records) + len(page.records) > rows or size + page_bytes > wire.MESSAGE_BYTES):
            yield _record_message(records, lengths, size, keys)
            records, lengths, keys, size = [], [], [], 0
        records += page.records
        lengths += page.lengths
        size += page_bytes
        if index_order is not None:
            keys += [decode_entry(index_order, encoded).secondary for encoded in page.entries]
    if records:
        yield _record_message(records, lengths, size, keys)


def _fitting(pages: Iterator[Page]) -> Iterator[Page]:
    """Pages that fit into a message, or have one record."""
    for page in pages:
        if sum(page.lengths) <= wire.MESSAGE_BYTES:
            yield page
        else:
            each = zip(page.records, page.lengths, strict=True)
            yield from (Page(page.entries[at : at + 1], [one], [length]) for at, (one, length) in enumerate(each))


def _record_message(stored: list[bytes], lengths: list[int], size: int, secondary: list[bytes]) -> bytes:
    keys = [SECONDARY_KEY_TAG + varint(len(key)) + key for key in secondary]
    return b"".join((RECORDS_TAG, varint(size), *stored, *_lengths(lengths), *keys))


def _lengths(lengths: list[int]) -> tuple[bytes, bytes, bytes]:
    packed = struct.pack(f"<{len(lengths)}I", *lengths)
    return LENGTHS_TAG, varint(len(packed)), packed
