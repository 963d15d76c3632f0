"""A view for tests: the words of text records, one row for each; records without words are none of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow

from metastore.spark.errors import WrongOption
from metastore.spark.records import Records
from metastore.spark.views import Decoded, Scope, Selection, View, levels_below


def scopes(selection: Selection) -> Sequence[Scope]:
    """All below `/words`, or one of its parts."""
    if selection.transaction is not None:
        raise WrongOption("words belong to no transaction")
    if selection.segment is None:
        return [Scope(levels_below("/words", 2, selection.key_sorting))]
    return [Scope(levels_below(f"/words/{selection.segment}", 1, selection.key_sorting))]


def decode(records: Records, columns: Sequence[str], selection: Selection) -> Decoded:
    """Splits values into words."""
    words = [value.decode().split() for value in records.values.to_pylist()]
    rows = [row for row, found in enumerate(words) for _ in found]
    flat = [word for found in words for word in found]
    made = {"word": pyarrow.array(flat, pyarrow.string()), "length": pyarrow.array(map(len, flat), pyarrow.int32())}
    return Decoded({name: made[name] for name in columns}, numpy.array(rows, numpy.int64))


WORDS = View("word STRING, length INT", scopes, decode)
