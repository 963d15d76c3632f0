"""Transaction ids bear the mark of their kind and are never taken for another's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txn.model.errors import InvalidTxnId
from txn.model.ids import COORDINATORS_MAX, SEQUENCE_MAX, TxnId

ids = st.builds(TxnId, st.integers(0, COORDINATORS_MAX - 1), st.integers(0, SEQUENCE_MAX))


@given(ids)
def test_an_id_survives_both_of_its_forms(txn_id: TxnId) -> None:
    assert TxnId.parse(str(txn_id)) == txn_id
    assert TxnId.of_halves(*txn_id.halves) == txn_id
    assert all(-(1 << 63) <= half < 1 << 63 for half in txn_id.halves)


@pytest.mark.parametrize("text", ["0_0", "3_17", "-1_5", "9223372036854775807_1"])
def test_the_id_of_a_legacy_transaction_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidTxnId, match="legacy transaction"):
        TxnId.parse(text)


@pytest.mark.parametrize("halves", [(0, 0), (3, 17), (-1, 5), ((1 << 63) - 1, 1)])
def test_the_halves_of_a_legacy_transaction_are_refused_by_name(halves: tuple[int, int]) -> None:
    with pytest.raises(InvalidTxnId, match="legacy transaction"):
        TxnId.of_halves(*halves)


@pytest.mark.parametrize("text", ["", "md", "md_1", "md_1_", "md_01_1", "md_1_2_3", "md_1_-2", "md_70000_1", "MD_1_2"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidTxnId):
        TxnId.parse(text)


@pytest.mark.parametrize(("coordinator", "sequence"), [(-1, 0), (COORDINATORS_MAX, 0), (0, -1), (0, SEQUENCE_MAX + 1)])
def test_numbers_beyond_the_space_are_refused(coordinator: int, sequence: int) -> None:
    with pytest.raises(InvalidTxnId, match="coordinators are"):
        TxnId(coordinator, sequence)


@given(ids, ids)
def test_ids_sort_by_coordinator_and_then_by_age(one: TxnId, other: TxnId) -> None:
    assert (one < other) == ((one.coordinator, one.sequence) < (other.coordinator, other.sequence))
