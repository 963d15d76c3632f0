"""Rules for what only Pulsar has: decisions that its coordinators announce to participants, as records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txn.audit.rules.model import (
    PULSARS,
    Context,
    OnRows,
    OnTables,
    Rule,
    Severity,
    col,
    has_operations,
    is_final,
)
from txn.audit.tables import Tables

SHOWN = ("state", "finalized", "operations", "announcements", "last_announced")


def _is_unannounced(context: Context) -> Column:
    is_early = col("last_announced").isNull() | context.before("last_announced", "finalized")
    return has_operations() & is_final() & is_early & context.settled("finalized")


def _is_contradicted(_: Context) -> Column:
    committed = (col("state") != "COMMITTED") & (col("committed_announcements") > 0)
    return committed | ((col("state") != "ABORTED") & (col("aborted_announcements") > 0))


def _is_contradictory(_: Context) -> Column:
    return (col("committed_announcements") > 0) & (col("aborted_announcements") > 0)


def _is_left_behind(context: Context) -> Column:
    return (col("announcements") > 0) & col("state").isNull() & context.settled("last_announced")


def _is_repeated(context: Context) -> Column:
    return col("announcements") > context.limits.announcements_max


def _is_of_deleted_topic(context: Context) -> Column:
    is_gone = (col("announcements") > 0) & col("has_segment").isNull() & ~has_operations()
    return is_gone & context.settled("last_announced")


def _find_watermarks_of_deleted_topics(tables: Tables, context: Context) -> DataFrame:
    known = tables.view("participants", "segment").distinct()
    watermarks = tables.view("watermarks", "segment", "ledger", "entry", "written", "odd_key").where("odd_key IS NULL")
    found = watermarks.where(context.settled("written")).join(F.broadcast(known), "segment", "left_anti")
    return found.select("segment", "ledger", "entry", "written")


PULSAR_RULES = (
    Rule(
        "decision-not-announced",
        "A transaction is decided, and a participant with operations was never told",
        "Participants of Pulsar learn of a decision by an announcement. Without one the messages stay invisible, "
        "or are held, until the coordinator's next collection announces it again, or the segment is loaded anew.",
        "See that the coordinator's collection runs. On a store of several shards some lookups of Pulsar find only a "
        "part of the operations; then nothing but unloading the segment helps.",
        Severity.ERROR,
        [OnRows("participants", _is_unannounced, SHOWN)],
        PULSARS,
    ),
    Rule(
        "announcement-contradicts-decision",
        "A decision was announced that is not the header's",
        "Participants read the header, so nothing need be lost; but two coordinators have disagreed.",
        "Compare the header with what participants have done.",
        Severity.CRITICAL,
        [
            OnRows("participants", lambda context: _is_contradicted(context) | _is_contradictory(context), SHOWN),
        ],
        PULSARS,
    ),
    Rule(
        "announcement-left-behind",
        "Announcements of a transaction are there although the transaction is gone",
        "Pulsar never removes them. Each transaction leaves at least one for each participant, for ever.",
        "They may be deleted, all but the newest of each participant: the store would begin to number them anew.",
        Severity.WARNING,
        [OnRows("participants", _is_left_behind, SHOWN)],
        PULSARS,
    ),
    Rule(
        "announcements-repeated",
        "A decision was announced to a participant again and again",
        "The participant does not react: its segment is not loaded, or was deleted. Each collection adds a record.",
        "Load the segment; if it was deleted, delete the operations of the transaction.",
        Severity.WARNING,
        [OnRows("participants", _is_repeated, SHOWN)],
        PULSARS,
    ),
    Rule(
        "topic-left-behind",
        "Records of transactions are there of a topic that was deleted",
        "Nothing removes announcements and watermarks of a segment that was deleted.",
        "They may be deleted.",
        Severity.WARNING,
        [
            OnRows("participants", _is_of_deleted_topic, SHOWN),
            OnTables(_find_watermarks_of_deleted_topics),
        ],
        PULSARS,
    ),
)
