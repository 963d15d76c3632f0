"""The model against what the protocol's description says in so many words."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.pb import oxia_pb2 as pb
from shard_model import ModelInvalid, ShardModel
from shard_model.order import ENCODERS, path_escaped
from shard_model.sequences import next_key, numbers_of

NOW_MS = 1_700_000_000_000
NO_COMPARISON = cast("pb.KeyComparisonType.ValueType", 5)
DESCRIBED_ORDER = [
    b"", b"a", b"zz", b"a/b", b"/", b"/a", b"/b", b"//", b"a/b/c", b"/a/", b"/a/x", b"/a//", b"/b/x", b"///",
    b"__oxia/x",
]  # fmt: skip


def put(key: bytes, value: bytes = b"", **fields: Any) -> pb.WriteRequest:
    return pb.WriteRequest(puts=[pb.PutRequest(key=key, value=value, **fields)])


def sequence_put(model: ShardModel, prefix: bytes, *deltas: int) -> bytes:
    response = model.write(put(prefix, partition_key=b"p", sequence_key_delta=deltas), NOW_MS)
    return bytes(response.puts[0].key)


def told(batch: pb.NotificationBatch) -> list[tuple[bytes, str]]:
    return [(entry.key, pb.NotificationType.Name(entry.value.type)) for entry in batch.notifications]


def test_hierarchical_order_is_the_described_one() -> None:
    assert sorted(reversed(DESCRIBED_ORDER), key=ENCODERS["hierarchical"]) == DESCRIBED_ORDER


def test_children_are_the_range_from_one_slash_to_two() -> None:
    model = ShardModel("hierarchical")
    for key in (b"/a", b"/a/", b"/a/x", b"/a/y", b"/a/x/deep", b"/b/x"):
        model.write(put(key), NOW_MS)
    children = model.list(pb.ListRequest(start_inclusive=b"/a/", end_exclusive=b"/a//"))
    assert children == [b"/a/", b"/a/x", b"/a/y"]


@given(st.lists(st.text("/a_\x00é", max_size=6), min_size=2, max_size=2, unique=True))
def test_encodings_keep_keys_apart(texts: list[str]) -> None:
    for encode in ENCODERS.values():
        assert len({encode(text.encode()) for text in texts}) == 2


def test_path_escaping_is_the_described_one() -> None:
    assert path_escaped("a/b é-_.~$&+:=@!".encode()) == b"a%2Fb%20%C3%A9-_.~$&+:=@%21"


def test_sequence_numbers_are_the_described_ones() -> None:
    model = ShardModel("hierarchical")
    numbers = [numbers_of(b"a", sequence_put(model, b"a", *deltas)) for deltas in ([3], [1, 6], [1, 6])]
    assert numbers == [(3,), (4, 6), (5, 12)]


def test_keys_that_only_look_like_a_sequence_do_not_disturb_it() -> None:
    lookalikes = [b"s", b"s-", b"s-x", b"s--5", b"s-7", b"s+x-7", b"s/x", b"s-%020d" % 2**64, b"s-%020dx" % 5]
    assert next_key(b"s", [1], lookalikes) == b"s-%020d" % 1


@pytest.mark.parametrize("deltas", [[0], [0, 1], [1]])
def test_bad_deltas_refuse_the_whole_request(deltas: list[int]) -> None:
    model = ShardModel("hierarchical")
    sequence_put(model, b"s", 1, 1)
    request = put(b"innocent")
    request.puts.append(pb.PutRequest(key=b"s", partition_key=b"p", sequence_key_delta=deltas))
    with pytest.raises(ModelInvalid) as refusal:
        model.write(request, NOW_MS)
    assert refusal.value.code == "INVALID_ARGUMENT"
    assert model.last_offset == 0
    assert b"innocent" not in model.records


def test_numbers_never_wrap_around() -> None:
    model = ShardModel("hierarchical")
    sequence_put(model, b"s", 2**64 - 1)
    with pytest.raises(ModelInvalid):
        sequence_put(model, b"s", 1)


def test_one_write_has_one_batch_and_the_last_operation_on_a_key_is_told() -> None:
    model = ShardModel("hierarchical")
    request = pb.WriteRequest(
        puts=[pb.PutRequest(key=key) for key in (b"b", b"a", b"a", b"gone", b"r", b"__oxia/own")],
        deletes=[pb.DeleteRequest(key=b"gone"), pb.DeleteRequest(key=b"missing")],
        delete_ranges=[pb.DeleteRangeRequest(start_inclusive=b"r", end_exclusive=b"s")],
    )
    model.write(request, NOW_MS)
    (batch,) = model.notifications(-1)
    assert told(batch) == [
        (b"a", "KEY_MODIFIED"),
        (b"b", "KEY_CREATED"),
        (b"gone", "KEY_DELETED"),
        (b"r", "KEY_RANGE_DELETED"),
    ]
    assert (batch.offset, batch.timestamp) == (0, NOW_MS)


def test_a_session_takes_along_only_what_is_still_its_own() -> None:
    model = ShardModel("hierarchical")
    first, second = model.create_session(2_000, b"", NOW_MS), model.create_session(2_000, b"", NOW_MS)
    assert (first, second) == (1, 2)
    for key in (b"kept", b"taken", b"persisted"):
        model.write(put(key, session_id=first), NOW_MS)
    model.write(put(b"taken", session_id=second), NOW_MS)
    model.write(put(b"persisted"), NOW_MS)
    model.close_session(first, NOW_MS)
    assert sorted(model.records) == [b"persisted", b"taken"]
    assert told(model.batches[-1]) == [(b"kept", "KEY_DELETED")]
    assert model.write(put(b"late", session_id=first), NOW_MS).puts[0].status == pb.SESSION_DOES_NOT_EXIST


def test_a_session_creation_takes_a_version_id_and_an_overriding_put_does_not() -> None:
    model = ShardModel("hierarchical")
    model.create_session(2_000, b"", NOW_MS)
    versions = [
        model.write(put(b"k"), NOW_MS),
        model.write(put(b"k", override_version_id=77), NOW_MS),
        model.write(put(b"k"), NOW_MS),
    ]
    assert [response.puts[0].version.version_id for response in versions] == [1, 77, 2]


def test_records_of_one_secondary_key_are_in_the_order_of_their_escaped_keys() -> None:
    model = ShardModel("hierarchical")
    index = pb.SecondaryIndex(index_name=b"i", secondary_key=b"k")
    for key in (b"p0", b"p/4", b"a!b", b"a$b"):
        model.write(put(key, secondary_indexes=[index, index]), NOW_MS)
    listed = model.list(pb.ListRequest(secondary_index_name=b"i", end_exclusive=b"z"))
    assert listed == [b"a$b", b"a!b", b"p/4", b"p0"]
    floor, lower = model.read(
        pb.ReadRequest(
            gets=[
                pb.GetRequest(key=b"k", comparison_type=pb.FLOOR, secondary_index_name=b"i"),
                pb.GetRequest(key=b"l", comparison_type=pb.FLOOR, secondary_index_name=b"i"),
            ]
        )
    )
    assert (floor.key, lower.key) == (b"a$b", b"p0")


def test_an_open_end_is_unbounded_over_keys_and_empty_over_an_index_or_a_deletion() -> None:
    for sorting in ENCODERS:
        model = ShardModel(sorting)
        index = pb.SecondaryIndex(index_name=b"i", secondary_key=b"k")
        model.write(put(b"a", secondary_indexes=[index]), NOW_MS)
        model.write(pb.WriteRequest(delete_ranges=[pb.DeleteRangeRequest()]), NOW_MS)
        assert model.list(pb.ListRequest()) == [b"a"]
        assert model.list(pb.ListRequest(secondary_index_name=b"i")) == []


@pytest.mark.parametrize("get", [pb.GetRequest(key=b"\xff"), pb.GetRequest(comparison_type=NO_COMPARISON)])
def test_ill_formed_gets_refuse_the_whole_request(get: pb.GetRequest) -> None:
    with pytest.raises(ModelInvalid):
        ShardModel("natural").read(pb.ReadRequest(gets=[pb.GetRequest(), get]))
