"""The keys of the records that violations are about."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from txn.audit.dialect import Dialect


def header_key(dialect: Dialect) -> Column:
    """Of a transaction's header."""
    return F.concat(F.lit(dialect.header_path), F.col("txn_id"))


def operation_key(dialect: Dialect, sequence: Column) -> Column:
    """Of an operation; null where there is none."""
    number = F.lpad(sequence.cast("string"), 20, "0")
    return F.concat(F.lit(dialect.operation_path), F.col("txn_id"), F.lit(dialect.operation_separator), number)


def participant_key(dialect: Dialect) -> Column:
    """Of a participant's first operation, or else of the header."""
    return F.coalesce("odd_key", operation_key(dialect, F.col("first_sequence")), header_key(dialect))
