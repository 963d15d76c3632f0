"""Rules about indexes: every record is found by them, and whatever they lead to is there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txn.audit.dialect import Dialect
from txn.audit.keys import header_key, operation_key
from txn.audit.rules.model import Context, OnTables, Rule, Severity, col
from txn.audit.tables import Tables

ENTRY = ("index", "secondary_key", "key")
SUMMED = ("entry_sums", "record_sums")
OF_HEADERS = ("deadline", "final")
OF_OPERATIONS = ("writes", "acks")


def _padded(number: Column) -> Column:
    return F.lpad(number.cast("string"), 20, "0")


def _deadline_entries(tables: Tables) -> DataFrame:
    headers = tables.known_headers
    is_open = col("state") == "OPEN"
    deadline = _padded(F.unix_millis("deadline"))
    final = F.concat(col("state"), F.lit(":"), _padded(F.unix_millis("finalized")))
    return headers.select(
        F.when(is_open, "deadline").otherwise("final").alias("index"),
        F.when(is_open, deadline).otherwise(final).alias("secondary_key"),
        header_key(tables.dialect).alias("key"),
        "txn_id",
    )


def _operation_entries(tables: Tables) -> DataFrame:
    operations = tables.view("ops", "txn_id", "sequence", "segment", "subscription", "odd_key").where("odd_key IS NULL")
    segment = _escaped(tables.dialect, col("segment"))
    of_subscription = F.concat(segment, F.lit(":"), _escaped(tables.dialect, col("subscription")))
    is_write = col("subscription").isNull()
    return operations.select(
        F.when(is_write, "writes").otherwise("acks").alias("index"),
        F.when(is_write, segment).otherwise(of_subscription).alias("secondary_key"),
        operation_key(tables.dialect, col("sequence")).alias("key"),
        "txn_id",
    )


def _escaped(dialect: Dialect, name: Column) -> Column:
    """A name as it stands in a secondary key."""
    form = F.url_encode(name)
    if dialect.index_parent:
        return form
    # Java escapes more than a path does, and a space as a plus.
    for escaped, plain in (("+", "%20"), ("*", "%2A"), ("%7E", "~")):
        form = F.replace(form, F.lit(escaped), F.lit(plain))
    return form


def _expected(tables: Tables) -> DataFrame:
    """What the indexes should have."""
    return _deadline_entries(tables).unionByName(_operation_entries(tables))


def _actual(tables: Tables, indexes: Sequence[str] = (*OF_HEADERS, *OF_OPERATIONS)) -> DataFrame:
    """What they have."""
    found: DataFrame | None = None
    for index in indexes:
        name = tables.dialect.indexes[index]
        parent = tables.dialect.index_parent.get(index, "")
        stripped = F.substring("secondary_key", len(parent) + 1, 1 << 30)
        entries = tables.source.index(name)
        entries = entries.select(F.lit(index).alias("index"), stripped.alias("secondary_key"), "key")
        found = entries if found is None else found.unionByName(entries)
    assert found is not None, "some index is asked for"
    return found


def _different_sums(tables: Tables, _: Context) -> DataFrame:
    """Where sums over all entries do not agree; else nothing need be compared one by one."""
    expected, actual = _expected_sums(tables), _actual_sums(tables)
    every = expected.unionByName(actual.select(*expected.columns))
    return every.groupBy(*expected.columns).count().where("count != 2")


def _expected_sums(tables: Tables) -> DataFrame:
    """What there should be: of entries that lead to headers by index, of others by segment or subscription too."""
    if tables.record_sums is None:
        headers = _deadline_entries(tables).groupBy("index").agg(*_sums(F.xxhash64("secondary_key", "key")))
        grouped = tables.lives.where("operations > 0").groupBy("segment", "subscription")
        operations = grouped.agg(F.sum("operations").alias("entries"), F.bit_xor("keys_hash").alias("hash"))
    else:
        index = F.when(col("state") == "OPEN", "deadline").otherwise("final").alias("index")
        by_index = tables.record_sums.where("state IS NOT NULL").groupBy(index)
        headers = by_index.agg(F.sum("entries").alias("entries"), F.bit_xor("hash").alias("hash"))
        operations = tables.record_sums.where("segment IS NOT NULL")
    segment, subscription = _escaped(tables.dialect, col("segment")), _escaped(tables.dialect, col("subscription"))
    kind = F.when(col("subscription").isNull(), "writes").otherwise("acks")
    index = F.concat_ws(":", kind, segment, subscription).alias("index")
    return headers.unionByName(operations.select(index, "entries", "hash"))


def _actual_sums(tables: Tables) -> DataFrame:
    """What there is."""
    if tables.entry_sums is None:
        headers = _actual(tables, OF_HEADERS).groupBy("index").agg(*_sums(F.xxhash64("secondary_key", "key")))
        index = F.concat_ws(":", "index", "secondary_key").alias("index")
        return headers.unionByName(_actual(tables, OF_OPERATIONS).groupBy(index).agg(*_sums(F.xxhash64("key"))))
    names = F.create_map(*(F.lit(each) for pair in tables.dialect.indexes.items() for each in reversed(pair)))
    index = F.concat_ws(":", names[col("index")], "found_by").alias("index")
    return tables.entry_sums.select(index, "entries", "hash")


def _sums(entry: Column) -> tuple[Column, Column]:
    return F.count("*").alias("entries"), F.bit_xor(entry).alias("hash")


def _differences(tables: Tables) -> DataFrame:
    """Entries that are only on one side: +1 in the records, -1 in the index."""
    expected = _expected(tables).select(F.xxhash64(*ENTRY).alias("entry"), F.lit(1).alias("side"))
    actual = _actual(tables).select(F.xxhash64(*ENTRY).alias("entry"), F.lit(-1).alias("side"))
    sums = expected.unionByName(actual).groupBy("entry").agg(F.sum("side").alias("side"))
    return sums.where("side != 0")


def _find_differences(tables: Tables, _: Context) -> DataFrame:
    """Entries of both kinds, with `side`."""
    differences = tables.keep(_differences(tables))
    missing = F.broadcast(differences.where("side > 0").select("entry"))
    spare = F.broadcast(differences.where("side < 0").select("entry"))
    entry = F.xxhash64(*ENTRY) == col("entry")
    unindexed = _expected(tables).join(missing, entry, "left_semi").select("txn_id", *ENTRY)
    leftover = _actual(tables).join(spare, entry, "left_semi").select(*ENTRY)
    unindexed = unindexed.withColumn("side", F.lit("record"))
    return tables.keep(unindexed.unionByName(leftover.withColumn("side", F.lit("index")), allowMissingColumns=True))


def _only_on(side: str, tables: Tables, context: Context) -> DataFrame:
    return tables.once(_find_differences, context).where(col("side") == side).drop("side")


INDEX_RULES = (
    Rule(
        "record-not-indexed",
        "A record is not found by the index that should lead to it",
        "An open transaction that is not indexed is never swept; a write that is not indexed is not seen by the "
        "segment's next owner, who then shows what was not committed.",
        "The store has lost an index entry, or a client has put the record without it. Put the record again, as it is.",
        Severity.CRITICAL,
        [OnTables(partial(_only_on, "record"), _different_sums, SUMMED)],
    ),
    Rule(
        "index-leads-nowhere",
        "An index has an entry that no record accounts for",
        "Whoever follows it finds a record that says something else, or none: it is swept, collected or recovered for "
        "what it is not.",
        "The store has kept an entry of a record that was changed or removed: report it to those who run the store.",
        Severity.ERROR,
        [OnTables(partial(_only_on, "index"), _different_sums, SUMMED)],
    ),
)
