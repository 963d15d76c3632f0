"""What is decided before a call's first message, and how the hash space is divided."""

from __future__ import annotations

from itertools import pairwise

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.directory import SHARDS_MAX, Namespace, is_namespace_name
from metastore.engine.routing import HASH_END, hash_ranges
from metastore.server.errors import RpcError
from metastore.server.host import Host
from metastore.server.router import check_authority

DEFAULT = Namespace("default", 0, 2, "hierarchical", True)
OTHER = Namespace("other", 2, 3, "natural", False)


@settings(deadline=None, database=None, derandomize=True)
@given(st.integers(1, SHARDS_MAX))
def test_the_shards_cover_every_hash_once(shards: int) -> None:
    ranges = hash_ranges(shards)
    assert len(ranges) == shards
    assert ranges[0][0] == 0
    assert ranges[-1][1] == HASH_END - 1
    for (low, high), (next_low, _) in pairwise(ranges):
        assert low <= high
        assert next_low == high + 1
    width = (HASH_END - 1) // shards + 1
    assert [low for low, _ in ranges] == [place * width for place in range(shards)]


def test_hash_ranges_are_those_of_an_oxia_server() -> None:
    assert hash_ranges(1) == [(0, 4294967295)]
    assert hash_ranges(4) == [
        (0, 1073741823),
        (1073741824, 2147483647),
        (2147483648, 3221225471),
        (3221225472, 4294967295),
    ]
    assert hash_ranges(3)[-1] == (2863311532, 4294967295)


@pytest.mark.parametrize("name", ["default", "a", "0", "A-b_c.d", "tenant.space"])
def test_names_of_namespaces(name: str) -> None:
    assert is_namespace_name(name)


@pytest.mark.parametrize("name", ["", "-a", ".a", "_a", "a..b", "a/b", "a b", "ä", "a\n"])
def test_what_is_no_name_of_a_namespace(name: str) -> None:
    assert not is_namespace_name(name)


def test_a_host_knows_where_everything_is() -> None:
    host = Host([DEFAULT, OTHER], {}, {3: "elsewhere:7001"})
    assert host.namespace(b"") is DEFAULT
    assert host.namespace(b"default") is DEFAULT
    assert host.namespace(b"other") is OTHER
    for name in (b"third", b"\xff", b"Default"):
        with pytest.raises(RpcError, match="oxia: namespace not found"):
            host.namespace(name)
    with pytest.raises(RpcError, match="shard id is required"):
        host.shard(None)
    with pytest.raises(RpcError) as hinted:
        host.shard(3)
    assert (hinted.value.reason, hinted.value.metadata) == (
        "NODE_IS_NOT_LEADER",
        {"shard": "3", "leader": "elsewhere:7001"},
    )
    with pytest.raises(RpcError) as unknown:
        host.shard(99)
    assert (unknown.value.reason, unknown.value.metadata) == ("NODE_IS_NOT_LEADER", {})


@pytest.mark.parametrize(
    "authority", ["host:1", "127.0.0.1:6648", "[::1]:6648", "host:", "host:port", "a.b-c:99999", "ä:1"]
)
def test_authorities(authority: str) -> None:
    check_authority(authority)


@pytest.mark.parametrize(
    ("authority", "word"),
    [
        ("", "no port"),
        ("host", "no port"),
        (":1", "empty host"),
        ("[]:1", "empty host"),
        ("::1", "colons"),
        ("::1:6648", "colons"),
        ("http://host:1", "scheme"),
        ("host:1/path", "path"),
        ("host:1?a=b", "query"),
        ("host:1#a", "fragment"),
    ],
)
def test_authorities_that_cannot_be(authority: str, word: str) -> None:
    with pytest.raises(RpcError) as refused:
        check_authority(authority)
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert word in refused.value.message
    assert repr(authority) in refused.value.message
