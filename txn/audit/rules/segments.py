"""Rules about segments: each is known, and its cursors stay within its log."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from txn.audit.rules.model import OURS, Context, OnRows, Rule, Severity, col, is_known


def _is_left_behind(context: Context) -> Column:
    return is_known("segment") & ~col("has_segment") & context.settled("log_changed")


def _is_cursor_left_behind(context: Context) -> Column:
    return is_known("segment") & ~F.coalesce("has_segment", F.lit(False)) & context.settled("changed")


def _is_segment_on_two_shards(_: Context) -> Column:
    return col("descriptor_shard") != col("log_shard")


def _is_beyond(context: Context) -> Column:
    is_of_later_owner = col("mark_ledger") > col("log_term")
    is_behind_end = F.coalesce(col("mark_entry") > col("mark_length"), F.lit(False))
    return ~col("deleting") & context.settled("changed") & (is_of_later_owner | is_behind_end)


SEGMENT_RULES = (
    Rule(
        "segment-left-behind",
        "Records of a segment are there although the segment is not",
        "A deletion was cut off after its last step, or the segment's descriptor is lost: nobody serves what is left.",
        "If the segment was deleted on purpose its records may go. If not, restore `/segments/SEGMENT/descriptor`.",
        Severity.ERROR,
        [
            OnRows("segments", _is_left_behind, ("term", "sealed", "log_changed")),
            OnRows("cursors", _is_cursor_left_behind, ("mark_ledger", "mark_entry", "changed")),
        ],
        OURS,
    ),
    Rule(
        "segment-on-two-shards",
        "Records of one segment are on different shards",
        "The owner's writes are guarded by a grant on one of them: those on the other are not, and are not found.",
        "Find the client that puts records without the segment's name as partition key.",
        Severity.CRITICAL,
        [OnRows("segments", _is_segment_on_two_shards, ("descriptor_shard", "log_shard"))],
        OURS,
    ),
    Rule(
        "cursor-beyond-log",
        "A subscription has acknowledged what the segment's log cannot have",
        "The log has lost entries, or the cursor is of another log: what comes next may count as acknowledged and is "
        "never delivered.",
        "See whether the segment's records were restored from an older copy than its cursors.",
        Severity.CRITICAL,
        [OnRows("cursors", _is_beyond, ("mark_ledger", "mark_entry", "mark_length", "log_term", "changed"))],
        OURS,
    ),
)
