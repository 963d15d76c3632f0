"""What layouts refuse: each error names the thing, and what is allowed. Whoever asks again is refused again.

LayoutError (fatal)
├── InvalidName           not a topic's or a segment's name
├── InvalidRange          not a range of hashes, or one that cannot be divided or joined so
├── SegmentNotFound       there is no such segment, or it was pruned
└── SegmentInWrongState   only active segments are split and merged, only sealed ones pruned
"""

from __future__ import annotations

from txn.model.errors import TxnFatal


class LayoutError(TxnFatal, ValueError):
    """A name, a range or a change of a layout that cannot be."""


class InvalidName(LayoutError):
    """Not a topic's or a segment's name."""


class InvalidRange(LayoutError):
    """Not a range of hashes, or one that cannot be divided or joined so."""


class SegmentNotFound(LayoutError):
    """There is no such segment, or it was pruned."""


class SegmentInWrongState(LayoutError):
    """Only active segments are split and merged, only sealed ones pruned."""
