"""Requests that a small and nasty keyspace inspires: few keys, so that they collide, each with a trap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

from hypothesis import strategies as st

from metastore.pb import oxia_pb2 as pb
from shard_model.model import ShardModel

LONG = b"long" * 150  # longer than any key that LMDB takes: what follows must still decide the order
PLAIN = (
    b"", b"a", b"b", b"zz", b"a!", b"a%2F", b"a\x00", b"a\x01", b"\x00", b"\x7f", "é".encode(),
    "\U0010ffff".encode(),
)  # fmt: skip
PATHS = (
    b"a", b"", b"/", b"//", b"///", b"a/", b"a//", b"a/b", b"a/b/", b"a/b//", b"a/b/c", b"/a", b"/a/", b"/a//",
    b"/a/b", b"b/a", "é/é".encode(), "/\U0010ffff".encode(), b"/" * 300, b"/" * 301, b"d/" * 260,
)  # fmt: skip
INTERNAL = (b"__oxia/x", b"__oxia/x/y", b"__oxia//", b"__oxia", b"__oxia0", b"__oxi/a", b"_", b"z")
LONG_ONES = (
    *(LONG[:length] for length in (497, 498, 499, 500, 501, 509, 511, 512, 600)),
    *(LONG[:length] + end for length in (498, 499, 500, 600) for end in (b"\x00", b"/", b"~", "é".encode())),
)
WATCHED_SEQUENCES = (b"s", b"s-00000000000000000001", b"a/s", b"s/", b"s.", LONG[:490])
SEQUENCES = (*WATCHED_SEQUENCES, b"__oxia/s")
SEQUENCE_LOOKALIKES = (
    b"s-", b"s-x", b"s--5", b"s-7", b"s-05", b"s-00000000000000000005", b"s-00000000000000000005x",
    b"s-00000000000000000005-00000000000000000002", b"s-18446744073709551615", b"s-99999999999999999999",
    b"a/s-00000000000000000003",
)  # fmt: skip
FAMILIES = (PLAIN, PATHS, INTERNAL, LONG_ONES, SEQUENCE_LOOKALIKES)
INDEX_NAMES = (b"i", b"i", b"i2", b"", b"i/j", b"i\x01", "é".encode())
SECONDARY_KEYS = (
    b"", b"a", b"b", b"a/b", b"a/", b"a//", b"/", b"//", b"b/a", b"a\x00", b"a\x01", b"a\x01b", b"%", b"~",
    b"__oxia/k", "\U0010ffff".encode(), LONG[:499], LONG[:500], LONG[:600],
)  # fmt: skip
INDEX_ENTRIES = [
    pb.SecondaryIndex(index_name=name, secondary_key=key) for name, key in product(INDEX_NAMES, SECONDARY_KEYS)
]
VALUES = (b"", b"x", b"\x00\xff", b"value", b"v" * 3000)
GOOD_DELTAS = [list(deltas) for size in (1, 2, 3) for deltas in product((1, 3), repeat=size)]
NASTY_DELTAS = [[0], [0, 1], [1, 0], [1, 0, 0], [2**63 - 1], [2**64 - 1], [1, 2**64 - 1]]
HIGHEST_TEXT = "\U0010ffff".encode()
NOT_UTF8 = (b"\xff", b"a\xc3", b"\xed\xa0\x80")
SESSION_TIMEOUTS_MS = (2_000, 3_000, 10_000, 300_000)
NO_SESSION = 987_654_321
NO_VERSION = 123_456_789
NO_COMPARISON = cast("pb.KeyComparisonType.ValueType", 7)
REFUSED_TIMEOUTS_MS = (0, 1_999, 300_001, 2**32 - 1)


@dataclass(frozen=True)
class Surroundings:
    """What requests may refer to: the keys of this run, and what is alive now."""

    keys: Sequence[bytes]
    version_ids: Sequence[int]
    session_ids: Sequence[int]


def surroundings(model: ShardModel, keyspace: Sequence[bytes]) -> Surroundings:
    made_by_sequences = sorted(set(model.records) - set(keyspace))
    return Surroundings(
        keys=(*keyspace, *made_by_sequences[:6]),
        version_ids=(-1, NO_VERSION, *(record.version_id for record in model.records.values())),
        session_ids=(*(list(model.sessions) * 4), NO_SESSION),
    )


def keyspaces() -> st.SearchStrategy[list[bytes]]:
    """The keys of one run: some that are alike, and a few of any kind."""
    texts = st.text("a/_\x00\x01~é", max_size=5).map(str.encode)
    any_key = st.one_of(texts, *map(st.sampled_from, FAMILIES))
    alike = st.sampled_from(FAMILIES).flatmap(lambda family: st.lists(st.sampled_from(family), min_size=4, max_size=7))
    return st.builds(lambda *parts: sorted({*parts[0], *parts[1]}), alike, st.lists(any_key, max_size=3))


def maybe(choices: Iterable[Any], one_in: int = 3) -> st.SearchStrategy[Any]:
    """The value of an optional field: mostly none. One draw, where nested strategies would take three."""
    some = list(choices)
    return st.sampled_from([*[None] * (len(some) * (one_in - 1)), *some])


def session_timeouts_ms() -> st.SearchStrategy[int]:
    return st.sampled_from([*SESSION_TIMEOUTS_MS * 3, *REFUSED_TIMEOUTS_MS])


def indexes() -> st.SearchStrategy[Sequence[pb.SecondaryIndex] | None]:
    entries = st.lists(st.sampled_from(INDEX_ENTRIES), min_size=1, max_size=3)
    return st.one_of(st.none(), entries)


def session_ids(around: Surroundings) -> st.SearchStrategy[int | None]:
    """Of a put: while nobody lives, mostly none."""
    return maybe(around.session_ids, one_in=3 if len(around.session_ids) > 1 else 12)


def puts(around: Surroundings) -> st.SearchStrategy[pb.PutRequest]:
    return st.builds(
        pb.PutRequest,
        key=st.sampled_from(around.keys),
        value=st.sampled_from(VALUES),
        expected_version_id=maybe(around.version_ids, one_in=4),
        session_id=session_ids(around),
        client_identity=maybe([b"", b"me", "é".encode()]),
        partition_key=maybe([b"", b"p"]),
        secondary_indexes=indexes(),
        override_version_id=maybe([-5, -1, 0, 1, 2**40], one_in=8),
        override_modifications_count=maybe([-7, -1, 0, 5], one_in=8),
    )


def sequence_puts(around: Surroundings) -> st.SearchStrategy[pb.PutRequest]:
    """Mostly good; the traps of a sequence put are each drawn now and then."""
    return st.builds(
        pb.PutRequest,
        key=st.sampled_from(SEQUENCES),
        value=st.sampled_from(VALUES),
        expected_version_id=maybe([-1], one_in=10),
        session_id=session_ids(around),
        partition_key=st.sampled_from([*[b"p"] * 8, b"", None]),
        sequence_key_delta=st.sampled_from([*GOOD_DELTAS * 3, *NASTY_DELTAS]),
        secondary_indexes=indexes(),
    )


def deletes(around: Surroundings) -> st.SearchStrategy[pb.DeleteRequest]:
    return st.builds(
        pb.DeleteRequest,
        key=st.sampled_from(around.keys),
        expected_version_id=maybe(around.version_ids),
        partition_key=maybe([b"p", b"\xff"], one_in=8),
    )


def bounds(around: Surroundings) -> st.SearchStrategy[bytes]:
    """Where a range begins or ends: at a key, beside one, or nowhere."""
    beside = [key + end for key in around.keys for end in (b"!", b"/", b"//", b"\x00")]
    nowhere = (b"", b"~", HIGHEST_TEXT)
    return st.sampled_from([*list(around.keys) * 4, *beside, *nowhere * 4])


def delete_ranges(around: Surroundings) -> st.SearchStrategy[pb.DeleteRangeRequest]:
    return st.builds(pb.DeleteRangeRequest, start_inclusive=bounds(around), end_exclusive=bounds(around))


def write_requests(around: Surroundings) -> st.SearchStrategy[pb.WriteRequest]:
    any_put = st.one_of(puts(around), puts(around), puts(around), sequence_puts(around))
    return st.builds(
        pb.WriteRequest,
        shard=st.just(0),
        puts=st.lists(any_put, max_size=5),
        deletes=st.one_of(st.none(), st.lists(deletes(around), max_size=3)),
        delete_ranges=st.one_of(st.none(), st.none(), st.lists(delete_ranges(around), max_size=2)),
    )


def ill_formed_writes(around: Surroundings) -> st.SearchStrategy[pb.WriteRequest]:
    """A good request with one field in it that is not UTF-8."""
    return st.builds(merged, write_requests(around), st.sampled_from(NOT_UTF8).flatmap(spoiled_writes))


def spoiled_writes(text: bytes) -> st.SearchStrategy[pb.WriteRequest]:
    name = pb.SecondaryIndex(index_name=text, secondary_key=b"k")
    secondary_key = pb.SecondaryIndex(index_name=b"i", secondary_key=text)
    spoiled_puts = [
        pb.PutRequest(key=text),
        pb.PutRequest(client_identity=text),
        pb.PutRequest(partition_key=text),
        pb.PutRequest(secondary_indexes=[name]),
        pb.PutRequest(secondary_indexes=[secondary_key]),
    ]
    spoiled_ranges = [pb.DeleteRangeRequest(start_inclusive=text), pb.DeleteRangeRequest(end_exclusive=text)]
    return st.sampled_from(
        [
            *(pb.WriteRequest(puts=[put]) for put in spoiled_puts),
            *(pb.WriteRequest(delete_ranges=[spoiled]) for spoiled in spoiled_ranges),
            pb.WriteRequest(deletes=[pb.DeleteRequest(key=text)]),
        ]
    )


def merged(request: pb.WriteRequest, more: pb.WriteRequest) -> pb.WriteRequest:
    both = pb.WriteRequest()
    both.CopyFrom(request)
    both.MergeFrom(more)
    return both


def gets(around: Surroundings) -> st.SearchStrategy[pb.GetRequest]:
    comparison = st.sampled_from([pb.EQUAL, pb.FLOOR, pb.CEILING, pb.LOWER, pb.HIGHER])
    primary = st.builds(
        pb.GetRequest,
        key=bounds(around),
        include_value=st.booleans(),
        comparison_type=comparison,
    )
    by_index = st.builds(
        pb.GetRequest,
        key=st.sampled_from(SECONDARY_KEYS),
        include_value=st.booleans(),
        comparison_type=comparison,
        secondary_index_name=st.sampled_from(INDEX_NAMES),
    )
    return st.one_of(primary, by_index)


def read_requests(around: Surroundings) -> st.SearchStrategy[pb.ReadRequest]:
    """Now and then with a comparison that nobody knows, or a key that is not UTF-8."""
    ill_formed = [
        pb.GetRequest(key=b"a", comparison_type=NO_COMPARISON),
        pb.GetRequest(key=b"a", comparison_type=NO_COMPARISON, secondary_index_name=b"i"),
        *(pb.GetRequest(key=text) for text in NOT_UTF8),
        pb.GetRequest(key=b"a", secondary_index_name=b"\xff"),
    ]
    return st.builds(
        lambda good, bad: pb.ReadRequest(shard=0, gets=[*good, *([bad] if bad else [])]),
        st.lists(gets(around), max_size=8),
        maybe(ill_formed, one_in=15),
    )


def list_requests(around: Surroundings) -> st.SearchStrategy[pb.ListRequest]:
    index_bound = st.sampled_from([*SECONDARY_KEYS, b"a!", b"0", b"zz"])
    primary = st.builds(
        pb.ListRequest,
        shard=st.just(0),
        start_inclusive=bounds(around),
        end_exclusive=bounds(around),
        include_internal_keys=st.booleans(),
    )
    by_index = st.builds(
        pb.ListRequest,
        shard=st.just(0),
        start_inclusive=index_bound,
        end_exclusive=index_bound,
        secondary_index_name=st.sampled_from(INDEX_NAMES),
        include_internal_keys=st.booleans(),
    )
    ill_formed = st.builds(pb.ListRequest, shard=st.just(0), start_inclusive=st.sampled_from(NOT_UTF8))
    return st.one_of(*[primary, by_index] * 4, ill_formed)


def range_scan_requests(around: Surroundings) -> st.SearchStrategy[pb.RangeScanRequest]:
    """The two requests have the same fields with the same numbers."""
    return list_requests(around).map(lambda asked: pb.RangeScanRequest.FromString(asked.SerializeToString()))
