"""Views say what the decoders say: for thousands of records at once, and for each strange one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow
import pytest
from audit_records import records
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.spark.views import Selection, View
from txn.audit.views import headers, operations, outcomes
from txn.audit.views.form import NUMBER, TIME, Form, decode
from txn.audit.views.hashing import hashes
from txn.model.aborted import AbortedRange
from txn.model.applied import Applied
from txn.model.header import Cause, Header, TxnState
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position

ALL = Selection("hierarchical")


def form_of(view: View) -> Form:
    """How a view makes its columns."""
    form: Form = view.decode.args[0]  # type: ignore[attr-defined]
    return form


def rows(form: Form, pairs: list[tuple[str, bytes]], selection: Selection = ALL) -> list[dict[str, Any]]:
    """The rows of a view."""
    decoded = decode(form, records(pairs), form.columns.names, selection)
    for name in form.columns.names:
        assert decoded.columns[name].type == form.columns.field(name).type
    # Times as numbers: records may have some that are beyond Python's last year.
    arrays = {name: array.cast(NUMBER) if array.type == TIME else array for name, array in decoded.columns.items()}
    columns = {name: array.to_pylist() for name, array in arrays.items()}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def one_by_one(form: Form, pairs: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    """The same rows, none made swiftly."""
    return rows(replace(form, swift=()), pairs)


POSITIONS = st.builds(Position, st.integers(0, 9), st.integers(0, 2**63 - 1))
IDS = st.builds("md_{}_{}".format, st.integers(0, 70_000), st.integers(0, 2**63))
NAMES = st.text(max_size=12).filter(lambda text: max(text, default="a") < "\ud800")
KEYS = st.one_of(
    st.builds("/txn/{}".format, IDS),
    st.builds("/txn-op/{}/-{:020}".format, IDS, st.integers(0, 10**20 - 1)),
    st.builds("/txn-applied/{}/segment%3A%2F%2Fa{}".format, IDS, st.sampled_from(["", ":s", ":s%2F1", ":", ":a:b"])),
    st.builds("/segments/segment%3A%2F%2Fa/aborted/{}".format, IDS),
    st.sampled_from(["/txn/x", "/txn/1_2", "/txn-op/md_0_1", "/txn-op/md_0_1/2", "/segments/a/log", "/other"]),
)
FIELDS = st.dictionaries(
    st.sampled_from(
        "format state created_ms timeout_ms owner finalized_ms cause kind segment position last subscription "
        "cumulative "
        "batch batch_size broker term written_ms applied_ms operations first_ms first".split()
    ),
    st.one_of(
        st.integers(-1, 2**70),
        st.sampled_from([1, "OPEN", "ABORTED", "client", "write", "ack", "1:2", "1:02", "2:1", True, None, 1.5, [1]]),
    ),
)
VALUES = st.one_of(
    FIELDS.map(lambda fields: json.dumps({"format": 1, **fields}).encode()),
    st.binary(max_size=8),
    st.builds(
        lambda state, created, deadline, end: Header(
            state, created, deadline, None, *((end, Cause.CLIENT) if state is not TxnState.OPEN else (None, None))
        ).encode(),
        st.sampled_from(TxnState),
        st.integers(-1, 10**16),
        st.integers(0, 10**15),
        st.integers(0, 10**15),
    ),
    st.builds(
        lambda position, length, name: Operation(
            OperationKind.WRITE, name, position, Position(position.ledger, position.entry + length), written_ms=5
        ).encode(),
        POSITIONS,
        st.integers(0, 3),
        NAMES,
    ),
    st.builds(
        lambda position, name, batch: Operation(
            OperationKind.ACK, "segment://a", position, None, name, not batch, tuple(batch), 5 if batch else 0
        ).encode(),
        POSITIONS,
        NAMES,
        st.lists(st.integers(0, 4)),
    ),
    st.builds(
        lambda first, more: AbortedRange(first, Position(first.ledger + more, first.entry)).encode(),
        POSITIONS,
        st.integers(0, 2),
    ),
    st.builds(
        lambda at_ms, broker, term: Applied(at_ms, broker, term, 3, at_ms, at_ms).encode(),
        st.integers(0, 10**16),
        NAMES,
        st.integers(0, 9),
    ),
)
FORMS = {
    "headers": form_of(headers.headers),
    "ops": form_of(operations.ops),
    "applied": form_of(outcomes.applied),
    "aborted": form_of(outcomes.aborted),
}


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=12))
def test_many_at_once_are_what_they_are_one_by_one(name: str, pairs: list[tuple[str, bytes]]) -> None:
    assert rows(FORMS[name], pairs) == one_by_one(FORMS[name], pairs)


USUAL_TIMES = st.one_of(st.integers(10**12, 10**13 - 1), st.integers(0, 10**14))
USUAL_HEADERS = st.builds(
    lambda state, created, deadline, end, owner, cause: Header(
        state, created, deadline, owner, *((end, cause) if state is not TxnState.OPEN else (None, None))
    ).encode(),
    st.sampled_from(TxnState),
    USUAL_TIMES,
    USUAL_TIMES,
    USUAL_TIMES,
    st.sampled_from([None, None, "me"]),
    st.sampled_from(Cause),
)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), values=st.lists(USUAL_HEADERS, min_size=1, max_size=6))
def test_usual_headers_with_any_byte_changed_are_what_they_are_one_by_one(
    data: st.DataObject, values: list[bytes]
) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    changed = bytearray(values[place])
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.sampled_from(b'0129aC"{},:\n \\\xc3'))
    values[place] = bytes(changed)
    pairs = [(f"/txn/md_0_{number}", value) for number, value in enumerate(values)]
    assert rows(FORMS["headers"], pairs) == one_by_one(FORMS["headers"], pairs)


def test_usual_headers_are_not_parsed() -> None:
    pairs = [
        ("/txn/md_0_1", Header(TxnState.OPEN, 1_600_000_000_000, 1_600_000_001_000).encode()),
        ("/txn/md_0_2", Header(TxnState.ABORTED, 10**12, 10**12, None, 10**13 - 1, Cause.DEADLINE).encode()),
    ]
    swiftest = replace(FORMS["headers"], swift=FORMS["headers"].swift[:1], row=_never)
    assert [row["txn_id"] for row in rows(swiftest, pairs)] == ["md_0_1", "md_0_2"]
    assert rows(swiftest, pairs) == one_by_one(FORMS["headers"], pairs)


def _never(key: str, *_: object) -> None:
    raise AssertionError(f"{key} was looked at by itself")


@given(texts=st.lists(st.binary(max_size=40), unique=True), start=st.integers(0, 5))
def test_hashes_differ_and_are_the_same_wherever_a_string_lies(texts: list[bytes], start: int) -> None:
    found = hashes(pyarrow.array(texts, pyarrow.binary())).tolist()
    assert len(set(found)) == len(texts)
    assert hashes(pyarrow.array(texts, pyarrow.binary()).slice(start)).tolist() == found[start:]
    assert [hashes(pyarrow.array([text], pyarrow.binary())).tolist()[0] for text in texts] == found
