"""Batches of few bytes go to Spark together, and say what they said alone."""

from __future__ import annotations

from itertools import chain

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.spark.batch import JOINED_BYTES, JOINED_MAX, joined

SCHEMA = pyarrow.schema([("name", pyarrow.string()), ("numbers", pyarrow.list_(pyarrow.int64()))])


def batch_of(texts: list[str]) -> pyarrow.RecordBatch:
    """A batch whose rows have one of these each."""
    numbers = [None if len(text) % 3 == 0 else list(range(len(text))) for text in texts]
    columns = [pyarrow.array(texts, pyarrow.string()), pyarrow.array(numbers, SCHEMA.field("numbers").type)]
    return pyarrow.record_batch(columns, SCHEMA)


@given(texts=st.lists(st.lists(st.text(max_size=3), max_size=4), max_size=40), most=st.integers(1, 5))
def test_rows_stay_as_they_are_and_in_their_order(texts: list[list[str]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metastore.spark.batch.JOINED_MAX", most)
        found = list(joined(map(batch_of, texts)))
    present = [each for each in texts if each]
    assert [row for batch in found for row in batch.to_pylist()] == batch_of(list(chain(*texts))).to_pylist()
    assert len(found) == -(-len(present) // most)


def test_large_batches_are_not_copied() -> None:
    large = batch_of(["x" * JOINED_BYTES])
    first, second = joined(iter([large, large]))
    assert first is large
    assert second is large


def test_rows_without_columns_are_counted() -> None:
    empty = pyarrow.RecordBatch.from_struct_array(pyarrow.array([{}] * 3, pyarrow.struct([])))
    assert [batch.num_rows for batch in joined(iter([empty] * (JOINED_MAX + 1)))] == [3] * (JOINED_MAX + 1)
