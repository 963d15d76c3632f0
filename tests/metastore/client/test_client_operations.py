"""The operations, on a real server with several shards."""

from __future__ import annotations

import itertools

import pytest

from metastore.client.client import Client
from metastore.client.errors import (
    InvalidRequest,
    KeyNotFound,
    NamespaceNotFound,
    UnexpectedVersion,
)
from metastore.client.values import ABSENT, Comparison, Record
from support.server import ServerProcess

LARGE_VALUE = bytes(range(256)) * 20_000  # 5 MB, beyond gRPC's usual limit


def shard_of(client: Client, key: str) -> int:
    """Where a key lives."""
    return client._connection.owner(key)


def test_a_record_is_stored_overwritten_and_deleted(client: Client, root: str) -> None:
    first = client.put(root, b"one")
    assert first.key == root
    assert (first.version.modifications_count, first.version.ephemeral) == (0, False)
    assert client.get(root) == Record(root, b"one", first.version)
    second = client.put(root, b"two").version
    assert second.version_id > first.version.version_id
    assert (second.modifications_count, second.created_ms) == (1, first.version.created_ms)
    client.delete(root)
    with pytest.raises(KeyNotFound, match=root):
        client.get(root)
    with pytest.raises(KeyNotFound, match=root):
        client.delete(root)


def test_a_put_may_expect_a_version_or_none(client: Client, root: str) -> None:
    with pytest.raises(UnexpectedVersion, match=root):
        client.put(root, b"", expected_version=0)
    stored = client.put(root, b"new", expected_version=ABSENT)
    with pytest.raises(UnexpectedVersion, match="the key exists"):
        client.put(root, b"", expected_version=ABSENT)
    with pytest.raises(UnexpectedVersion, match="is not"):
        client.put(root, b"", expected_version=stored.version.version_id + 1)
    client.put(root, b"newer", expected_version=stored.version.version_id)
    assert client.get(root).value == b"newer"


def test_a_delete_may_expect_a_version(client: Client, root: str) -> None:
    version_id = client.put(root, b"").version.version_id
    with pytest.raises(UnexpectedVersion):
        client.delete(root, expected_version=version_id + 1)
    client.delete(root, expected_version=version_id)
    with pytest.raises(UnexpectedVersion):
        client.delete(root, expected_version=version_id)


@pytest.mark.parametrize("value", [b"", b"\0\xff", LARGE_VALUE], ids=["empty", "binary", "large"])
def test_values_come_back_as_they_were(client: Client, root: str, value: bytes) -> None:
    client.put(root, value)
    assert client.get(root).value == value
    assert [record.value for record in client.range_scan(root, root + "!")] == [value]


def test_a_get_may_leave_out_the_value(client: Client, root: str) -> None:
    version = client.put(root, b"long").version
    assert client.get(root, include_value=False) == Record(root, None, version)


def test_a_key_need_not_be_ascii(client: Client, root: str) -> None:
    key = f"{root}/ключ \U0001f511\n"
    client.put(key, b"v")
    assert client.get(key).value == b"v"
    assert list(client.list(f"{root}/", f"{root}//")) == [key]


def test_an_identity_is_kept_with_the_record(client: Client, root: str) -> None:
    client.put(root, b"", identity="somebody")
    assert client.get(root).version.client_identity == "somebody"


def test_a_partition_key_decides_the_shard(client: Client, root: str) -> None:
    keys = [f"{root}/{number}" for number in range(20)]
    for key in keys:
        client.put(key, b"", partition_key=root)
    assert sorted(client.list(f"{root}/", f"{root}//", partition_key=root)) == sorted(keys)
    elsewhere = next(key for key in keys if shard_of(client, key) != shard_of(client, root))
    with pytest.raises(KeyNotFound):
        client.get(elsewhere)
    assert client.get(elsewhere, partition_key=root).key == elsewhere
    client.delete(elsewhere, partition_key=root)
    client.delete_range(f"{root}/", f"{root}//", partition_key=root)
    assert list(client.list(f"{root}/", f"{root}//")) == []


def test_lists_and_scans_merge_the_shards_in_the_servers_order(client: Client, root: str) -> None:
    names = ["a", "b", "zz", "a/b", "b/a", "a/b/c", "c/b/a"]
    keys = [f"{root}/{name}" for name in names]
    for key in keys:
        client.put(key, key.encode())
    assert len({shard_of(client, key) for key in keys}) > 1
    # A range that spans levels also holds what others keep there.
    assert [key for key in client.list() if key.startswith(f"{root}/")] == keys
    scanned = [record for record in client.range_scan() if record.key.startswith(f"{root}/")]
    assert [record.key for record in scanned] == keys
    assert [record.value for record in scanned] == [key.encode() for key in keys]
    assert list(client.list(f"{root}/b", f"{root}//")) == keys[1:3]
    assert list(client.list(f"{root}/b", f"{root}/b")) == []


def test_a_range_is_deleted_on_every_shard(client: Client, root: str) -> None:
    keys = [f"{root}/{number:02}" for number in range(20)]
    for key in keys:
        client.put(key, b"")
    client.delete_range(f"{root}/05", f"{root}/15")
    assert list(client.list(f"{root}/", f"{root}//")) == keys[:5] + keys[15:]


@pytest.mark.parametrize(
    ("comparison", "asked", "found"),
    [
        (Comparison.EQUAL, "04", "04"),
        (Comparison.FLOOR, "04", "04"),
        (Comparison.FLOOR, "05", "04"),
        (Comparison.CEILING, "04", "04"),
        (Comparison.CEILING, "05", "06"),
        (Comparison.LOWER, "04", "02"),
        (Comparison.HIGHER, "04", "06"),
        (Comparison.EQUAL, "05", None),
    ],
)
def test_the_nearest_record_of_all_shards(
    client: Client, root: str, comparison: Comparison, asked: str, found: str | None
) -> None:
    for number in range(0, 20, 2):
        client.put(f"{root}/{number:02}", str(number).encode())
    if found is None:
        with pytest.raises(KeyNotFound):
            client.get(f"{root}/{asked}", comparison=comparison)
        return
    record = client.get(f"{root}/{asked}", comparison=comparison)
    assert (record.key, record.value) == (f"{root}/{found}", str(int(found)).encode())


def test_records_are_found_by_their_secondary_keys(client: Client, root: str) -> None:
    index = f"index of {root[1:]}"
    for number in range(0, 20, 2):
        client.put(
            f"{root}/{number:02}", b"v", secondary_indexes=[(index, f"s{99 - number}"), (index, "all")]
        )
    record = client.get("s95", index=index)
    assert (record.key, record.value, record.secondary_key) == (f"{root}/04", b"v", "s95")
    assert client.get("s94", index=index, comparison=Comparison.HIGHER).key == f"{root}/04"
    assert client.get("s95", index=index, comparison=Comparison.LOWER).key == f"{root}/06"
    assert client.get("all", index=index).key == f"{root}/00"
    assert client.get("all", index=index, comparison=Comparison.FLOOR).key == f"{root}/00"
    with pytest.raises(KeyNotFound, match=index):
        client.get("s96", index=index)
    with pytest.raises(KeyNotFound, match="before it"):
        client.get("all", index=index, comparison=Comparison.LOWER)


def test_an_index_is_listed_shard_by_shard(client: Client, root: str) -> None:
    index = f"index of {root[1:]}"
    ascending = [f"{root}/{number:02}" for number in range(20)]
    for number, key in enumerate(ascending):
        client.put(key, b"v", secondary_indexes=[(index, f"s{99 - number}")])
    by_secondary_key = ascending[4:15][::-1]
    in_shards = [
        key
        for shard_id in client.shard_ids()
        for key in by_secondary_key
        if shard_of(client, key) == shard_id
    ]
    assert len({shard_of(client, key) for key in by_secondary_key}) > 1
    assert list(client.list("s85", "s96", index=index)) == in_shards
    assert [record.key for record in client.range_scan("s85", "s96", index=index)] == in_shards
    assert list(client.list("s85", "s96", index="another")) == []


def test_a_sequence_makes_its_own_keys(client: Client, root: str) -> None:
    def append(*deltas: int) -> str:
        return client.put(root, b"", partition_key=root, sequence_deltas=deltas).key

    assert append(3) == f"{root}-{3:020}"
    assert append(1, 6) == f"{root}-{4:020}-{6:020}"
    assert append(1, 6) == f"{root}-{5:020}-{12:020}"


def test_what_the_client_knows_to_be_wrong_is_not_sent(client: Client, root: str) -> None:
    with pytest.raises(InvalidRequest, match="partition key"):
        client.put(root, b"", sequence_deltas=[1])
    with pytest.raises(InvalidRequest, match="surrogates"):
        client.get("\ud800")


def test_internal_keys_are_shown_on_request(client: Client, root: str) -> None:
    key = f"__oxia/zz-test{root}"
    client.put(key, b"v")
    assert key not in list(client.list())
    assert key in list(client.list(include_internal=True))
    assert key in [record.key for record in client.range_scan("__oxia/zz-test", include_internal=True)]
    client.delete(key)


def test_a_long_scan_comes_in_pieces(client: Client, root: str) -> None:
    value = b"x" * 100_000
    keys = [f"{root}/{number:03}" for number in range(120)]
    for key in keys:
        client.put(key, value)
    scan = client.range_scan(f"{root}/", f"{root}//")
    assert [record.key for record in itertools.islice(scan, 100)] == keys[:100]
    scan.close()
    assert [record.key for record in client.range_scan(f"{root}/", f"{root}//")] == keys
    client.delete_range(f"{root}/", f"{root}//")


def test_an_unknown_namespace(server: ServerProcess) -> None:
    with (
        Client(server.address, namespace="nowhere") as client,
        pytest.raises(NamespaceNotFound, match="nowhere"),
    ):
        client.get("k")


def test_shards_with_natural_sorting() -> None:
    with (
        ServerProcess(shards=2, sorting="natural") as server,
        Client(server.address, key_sorting="natural") as client,
    ):
        keys = ["a", "a/b", "a/b/c", "b", "b/a", "zz"]
        for key in reversed(keys):
            client.put(key, b"")
        assert len({shard_of(client, key) for key in keys}) > 1
        assert list(client.list()) == keys
        assert client.get("a/c", comparison=Comparison.FLOOR).key == "a/b/c"


def test_a_client_outlives_its_server() -> None:
    with ServerProcess(shards=2) as server, Client(server.address) as client:
        client.put("k", b"before")
        server.restart("kill")
        assert client.get("k").value == b"before"
        assert client.put("k", b"after").version.modifications_count == 1
