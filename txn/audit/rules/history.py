"""Rules over history: what was so in an earlier audit, and cannot have become what is now."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from metastore.spark.schemas import AS_OF
from txn.audit.keys import header_key
from txn.audit.participants import is_acknowledged
from txn.audit.rules.model import OURS, PULSARS, Context, OnTables, Rule, Severity, col
from txn.audit.tables import Tables

_LIFE = ("txn_id", "state", "begun", "finalized", AS_OF)


def _lives(tables: Tables) -> DataFrame:
    """All that was ever seen of headers."""
    now = tables.headers.where("odd_key IS NULL").select(*_LIFE)
    return tables.history("headers").where("odd_key IS NULL").select(*_LIFE).unionByName(now)


def _find_reversed(tables: Tables, _: Context) -> DataFrame:
    first_end = F.min(F.when(col("state") != "OPEN", col(AS_OF)))
    last_open = F.max(F.when(col("state") == "OPEN", col(AS_OF)))
    grouped = (
        _lives(tables)
        .groupBy("txn_id", "begun")
        .agg(
            F.count_if(col("state") == "COMMITTED").alias("seen_committed"),
            F.count_if(col("state") == "ABORTED").alias("seen_aborted"),
            first_end.alias("first_seen_decided"),
            last_open.alias("last_seen_open"),
        )
    )
    is_reversed = (col("seen_committed") > 0) & (col("seen_aborted") > 0)
    return grouped.where(is_reversed | (col("last_seen_open") > col("first_seen_decided")))


def _find_given_twice(tables: Tables, _: Context) -> DataFrame:
    begun = F.min("begun").alias("first_begun"), F.max("begun").alias("last_begun")
    grouped = _lives(tables).groupBy("txn_id").agg(*begun)
    return grouped.where("first_begun != last_begun")


def _find_vanished(tables: Tables, context: Context) -> DataFrame:
    """Gone sooner than it could have been decided and collected; or, where every change is recorded, gone open."""
    earlier = (
        tables.history("headers")
        .where("odd_key IS NULL")
        .groupBy("txn_id")
        .agg(F.max(AS_OF).alias("last_seen"), F.count_if(col("state") != "OPEN").alias("ends"))
    )
    now = tables.headers.where("odd_key IS NULL").select("txn_id")
    moment = tables.lives.agg(F.max(AS_OF).alias(AS_OF))
    removed = tables.history("removed").groupBy("key").agg(F.max(AS_OF).alias("removed"))
    gone = earlier.where("ends = 0").join(now, "txn_id", "left_anti").crossJoin(F.broadcast(moment))
    gone = gone.withColumn("key", header_key(tables.dialect)).join(removed, "key", "left")
    is_sooner = ~context.older("last_seen", context.limits.retention_ms)
    return gone.where(is_sooner | (col("removed") >= col("last_seen"))).select("txn_id", "last_seen", "removed")


def _find_decided_twice(tables: Tables, _: Context) -> DataFrame:
    ends = tables.history("headers").where("odd_key IS NULL AND state != 'OPEN'")
    grouped = ends.groupBy("txn_id", "begun").agg(
        F.count_distinct("version_id").alias("decisions"), F.sort_array(F.collect_set("state")).alias("states")
    )
    return grouped.where("decisions > 1")


def _find_lost_acknowledgements(tables: Tables, context: Context) -> DataFrame:
    acks = tables.history("ops").where("subscription IS NOT NULL AND NOT cumulative AND batch IS NULL")
    acks = acks.select("txn_id", "sequence", "segment", "subscription", "ledger", "last_entry").distinct()
    committed = _lives(tables).where(col("state") == "COMMITTED").where(context.settled("finalized"))
    present = tables.acknowledgers.where("operations > 0").select("txn_id", "segment", "subscription")
    cursors = tables.cursor_records.where("odd_key IS NULL AND NOT deleting").drop(AS_OF, "odd_key", "odd")
    position = F.struct(col("ledger"), col("last_entry"))
    settled = acks.join(committed.select("txn_id").distinct(), "txn_id", "left_semi")
    done = settled.join(present, ["txn_id", "segment", "subscription"], "left_anti")
    lost = done.join(F.broadcast(cursors), ["segment", "subscription"]).where(~is_acknowledged(position, position))
    return lost.select("txn_id", "segment", "subscription", "ledger", "last_entry", "mark_ledger", "mark_entry")


def _find_cursors_back(tables: Tables, _: Context) -> DataFrame:
    before = tables.history("cursors").where("odd_key IS NULL AND NOT deleting")
    mark = F.struct("mark_ledger", "mark_entry")
    farthest = before.groupBy("segment", "subscription").agg(F.max(mark).alias("farthest"))
    now = tables.cursor_records.where("odd_key IS NULL AND NOT deleting")
    found = now.join(farthest, ["segment", "subscription"]).where(mark < col("farthest"))
    was = col("farthest").cast("string").alias("was")
    return found.select("segment", "subscription", "mark_ledger", "mark_entry", was)


def _find_logs_back(tables: Tables, _: Context) -> DataFrame:
    before = (
        tables.history("segment_state")
        .where("odd_key IS NULL")
        .groupBy("segment")
        .agg(F.max("term").alias("term_was"), F.max(F.struct("trimmed_ledger", "trimmed_entry")).alias("trimmed_was"))
    )
    now = tables.states.where("odd_key IS NULL").join(before, "segment")
    is_back = (col("term") < col("term_was")) | (F.struct("trimmed_ledger", "trimmed_entry") < col("trimmed_was"))
    shown = ("segment", "term", "term_was", "trimmed_ledger", "trimmed_entry")
    return now.where(is_back).select(*shown, col("trimmed_was").cast("string").alias("trimmed_was"))


def _find_watermarks_back(tables: Tables, _: Context) -> DataFrame:
    place = F.struct("ledger", "entry")
    earlier = tables.history("watermarks").where("odd_key IS NULL")
    before = earlier.groupBy("segment").agg(F.max(place).alias("farthest"))
    now = tables.view("watermarks", "segment", "ledger", "entry", "odd_key").where("odd_key IS NULL")
    found = now.join(before, "segment").where(place < col("farthest"))
    return found.select("segment", "ledger", "entry", col("farthest").cast("string").alias("was"))


def _find_numbers_back(tables: Tables, _: Context) -> DataFrame:
    before = tables.history("numbers").where("odd_key IS NULL").groupBy("coordinator").agg(F.max("next").alias("was"))
    now = tables.view("numbers", "coordinator", "next", "key", "odd_key").where("odd_key IS NULL")
    return now.join(before, "coordinator").where("next < was").select("key", "next", "was")


HISTORY_RULES = (
    Rule(
        "decision-reversed",
        "A transaction was seen decided one way, and later open or decided the other way",
        "A decision is for ever. Participants that acted on the first one have done what is now wrong.",
        "See whether the store was restored from an older copy. The ledger has both states, with times.",
        Severity.CRITICAL,
        [OnTables(_find_reversed)],
        is_of_history=True,
    ),
    Rule(
        "decided-twice",
        "A header was written again after it was decided",
        "There is one decision, of one compare-and-set. Whoever has read the header in between may have acted on "
        "another one.",
        "Find the client that puts headers without their version. The ledger has each version, with its time.",
        Severity.CRITICAL,
        [OnTables(_find_decided_twice)],
        is_of_history=True,
    ),
    Rule(
        "id-given-twice",
        "One id was seen of two transactions",
        "What the first has left behind, readers take for the second's.",
        "See whether the numbers (`/txn-ids`; Pulsar's `/txn/tc-seq`) were restored from an older copy. Do not go on "
        "before they are greater than all ids there were.",
        Severity.CRITICAL,
        [OnTables(_find_given_twice)],
        is_of_history=True,
    ),
    Rule(
        "open-transaction-vanished",
        "A transaction was open, and its header is gone although nobody has decided it",
        "Nobody has decided it, so its operations will never be carried out.",
        "See who deletes headers beside the collectors, or whether the store has lost data.",
        Severity.CRITICAL,
        [OnTables(_find_vanished, reads=("lives",))],
        is_of_history=True,
    ),
    Rule(
        "acknowledgement-lost",
        "A message was acknowledged in a committed transaction, and its cursor does not say so",
        "The operation is gone as if it had been carried out, and the message will be delivered again: exactly-once is "
        "broken for it.",
        "The evidence names the entry. See whether somebody has set the subscription back (a seek), or the cursor was "
        "restored from an older copy; report it if not.",
        Severity.CRITICAL,
        [OnTables(_find_lost_acknowledgements)],
        OURS,
        is_of_history=True,
    ),
    Rule(
        "cursor-went-back",
        "A subscription's cursor stands before where it stood",
        "What is between the two places is delivered again.",
        "If nobody has set the subscription back (a seek), see whether the store was restored from an older copy.",
        Severity.WARNING,
        [OnTables(_find_cursors_back)],
        OURS,
        is_of_history=True,
    ),
    Rule(
        "log-went-back",
        "A segment's log has an older owner, or begins earlier, than it had",
        "Fencing stands on terms that only grow: an owner that was deposed may be able to write again.",
        "See whether the segment's records were restored from an older copy.",
        Severity.CRITICAL,
        [OnTables(_find_logs_back)],
        OURS,
        is_of_history=True,
    ),
    Rule(
        "numbers-went-back",
        "A coordinator's next id is smaller than it was",
        "It will give ids a second time.",
        "Stop the coordinators, and raise the number above all ids there were.",
        Severity.CRITICAL,
        [OnTables(_find_numbers_back)],
        is_of_history=True,
    ),
    Rule(
        "watermark-went-back",
        "The place up to which a segment of Pulsar may be read stands before where it stood",
        "A broker that loads the segment now holds back what was delivered already, or takes a decision for open.",
        "See whether the store was restored from an older copy, or the topic was made anew under the same name.",
        Severity.ERROR,
        [OnTables(_find_watermarks_back)],
        PULSARS,
        is_of_history=True,
    ),
)
