"""Operations that are laid out (`txn.model.layout`): their columns, of a whole batch at once, without parsing."""

from __future__ import annotations

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.spark.columns import times
from metastore.spark.records import Numbers, Records
from txn.audit.views.form import NUMBER, TEXT, Array, Swift
from txn.audit.views.ids import ID
from txn.audit.views.letters import DIGITS_MAX, WORD, Flags, Letters
from txn.decoding.fields import TIME_MS_MAX
from txn.model import layout, paths
from txn.model.operation import OperationKind

BATCH = pyarrow.list_(NUMBER)

_KEY_HEAD, _KEY_NUMBER = f"{paths.OPERATIONS}/".encode(), b"/-00"
_HEAD_WORDS = layout.HEAD.size // WORD
_KINDS = pyarrow.array([OperationKind.WRITE.value, OperationKind.ACK.value], TEXT)
_LOW, _HALF = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)


def laid_operations(records: Records) -> Swift | None:
    """The columns of a batch. Records of another format are not sound, nor those that acknowledge parts of a batch."""
    letters = Letters(records.buffer)
    starts, sizes = records.value_bounds
    head = letters.rows(starts, _HEAD_WORDS)
    about, segment_bytes = head[:, 0] & _LOW, _number(head[:, 0] >> _HALF)
    subscription_bytes, broker_bytes = _number(head[:, 1] & _LOW), _number(head[:, 1] >> _HALF)
    ledger, first, last, term, written_ms = (_number(head[:, place]) for place in range(2, 7))
    flags = about >> numpy.uint64(8)
    is_ack, is_cumulative, is_several = (
        flags & numpy.uint64(flag) != 0 for flag in (layout.ACK, layout.CUMULATIVE, layout.SEVERAL)
    )
    size = layout.HEAD.size + segment_bytes + subscription_bytes + broker_bytes
    is_sound = (
        (about & numpy.uint64(0xFF) == numpy.uint64(layout.FORMAT))
        & (flags <= numpy.uint64(layout.FLAGS))
        & (sizes == size)
        & (head[:, 7] == 0)
        & numpy.where(is_ack, ~is_several, ~is_cumulative & (subscription_bytes == 0))
        & (ledger >= 0)
        & (first >= 0)
        & numpy.where(is_several, last >= first, last == first)
        & (term >= 0)
        & (written_ms >= 0)
        & (written_ms <= TIME_MS_MAX)
    )
    sequences, txn_ids, is_key = _keys(records, letters)
    is_sound &= is_key
    segments_at = starts + layout.HEAD.size
    subscriptions_at = segments_at + segment_bytes
    brokers_at = subscriptions_at + subscription_bytes
    is_sound &= letters.begins_letter(subscriptions_at) & letters.begins_letter(brokers_at)

    def cut(at: Numbers, length: Numbers) -> Array:
        # Pieces must follow each other: of a record that is not sound it is an empty one.
        return records.cut(numpy.where(is_sound, at, starts), numpy.where(is_sound, length, 0))

    try:
        # All three are text where the whole is, and each begins with a letter. Most readers want one of them, or none.
        cut(segments_at, segment_bytes + subscription_bytes + broker_bytes).cast(TEXT)
    except pyarrow.ArrowInvalid:
        return None

    def text(at: Numbers, length: Numbers) -> Array:
        pieces = cut(at, length)
        return pyarrow.StringArray.from_buffers(len(pieces), *pieces.buffers()[1:])

    return Swift(
        {
            "txn_id": lambda: txn_ids,
            "sequence": lambda: pyarrow.array(sequences),
            "kind": lambda: _KINDS.take(pyarrow.array(is_ack.astype(numpy.int8))),
            "segment": lambda: text(segments_at, segment_bytes),
            "subscription": lambda: pc.if_else(
                pyarrow.array(is_ack), text(subscriptions_at, subscription_bytes), None
            ),
            "ledger": lambda: pyarrow.array(ledger),
            "first_entry": lambda: pyarrow.array(first),
            "last_entry": lambda: pyarrow.array(last),
            "cumulative": lambda: pyarrow.array(is_cumulative),
            "batch": lambda: pyarrow.nulls(len(records), BATCH),
            "written": lambda: times(written_ms),
            "broker": lambda: text(brokers_at, broker_bytes),
            "term": lambda: pyarrow.array(term),
        },
        pyarrow.array(is_sound),
    )


def _number(words: Array) -> Numbers:
    """As int64, in one piece; what does not fit is negative."""
    return numpy.ascontiguousarray(words).view(numpy.int64)


def _keys(records: Records, letters: Letters) -> tuple[Numbers, Array, Flags]:
    """The numbers and transactions of keys `/txn-op/ID/-NUMBER`, and which keys are such."""
    starts, lengths = records.key_bounds
    ends = starts + lengths
    number, ids = ends - DIGITS_MAX - len(_KEY_NUMBER), starts + len(_KEY_HEAD)
    sequences, is_key = letters.digits(ends, DIGITS_MAX)
    is_key &= (number > ids) & letters.has(starts, _KEY_HEAD) & letters.has(number, _KEY_NUMBER)
    txn_ids = records.cut(numpy.where(is_key, ids, starts), numpy.where(is_key, number - ids, 0))
    # Those of one transaction follow each other: one look is enough for them.
    is_new = numpy.ones(len(starts), bool)
    is_new[1:] = pc.not_equal(txn_ids[1:], txn_ids[:-1]).to_numpy(zero_copy_only=False)
    each = txn_ids.take(pyarrow.array(numpy.flatnonzero(is_new)))
    is_id = pc.match_substring_regex(each, f"^{ID}$").to_numpy(zero_copy_only=False)
    is_key &= is_id[numpy.cumsum(is_new) - 1]
    return sequences, pc.if_else(pyarrow.array(is_key), txn_ids, b"").cast(TEXT), is_key
