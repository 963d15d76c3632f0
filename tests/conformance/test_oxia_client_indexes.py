"""The stock Python client: secondary indexes."""

from __future__ import annotations

from typing import Any

import oxia
import pytest


@pytest.fixture
def index(space: str) -> str:
    return f"{space}index"


@pytest.fixture
def fruits(client: Any, space: str, index: str) -> dict[str, str]:
    """Ten records, with primary and secondary keys in the same order: key-0 is k0, to key-9, which is k9."""
    keys = {f"{space}key-{number}": f"k{number}" for number in range(10)}
    for key, secondary in keys.items():
        client.put(key, f"value of {key}", secondary_indexes={index: secondary})
    return keys


def test_ranges_are_of_secondary_keys(client: Any, space: str, index: str) -> None:
    for secondary in "dbcaef":
        client.put(f"{space}{ord('z') - ord(secondary)}", secondary, secondary_indexes={index: secondary})
    wanted = {f"{space}{ord('z') - ord(secondary)}": secondary for secondary in "bcd"}
    assert sorted(client.list("b", "e", use_index=index)) == sorted(wanted)
    records = {key: value.decode() for key, value, _ in client.range_scan("b", "e", use_index=index)}
    assert records == wanted


def test_the_order_is_that_of_secondary_keys(client: Any, space: str, index: str) -> None:
    for key, secondary in zip("pqrst", "cabed", strict=True):
        client.put(space + key, secondary, partition_key="home", secondary_indexes={index: secondary})
    listed = client.list("a", "z", partition_key="home", use_index=index)
    assert listed == [space + key for key in "qrpts"]
    scanned = list(client.range_scan("a", "z", partition_key="home", use_index=index))
    assert [key for key, _, _ in scanned] == listed
    assert [value for _, value, _ in scanned] == [b"a", b"b", b"c", b"d", b"e"]


def test_many_records_may_share_a_secondary_key(client: Any, space: str, index: str) -> None:
    keys = [f"{space}{number}" for number in range(5)]
    for key in reversed(keys):
        client.put(key, "v", partition_key="home", secondary_indexes={index: "same"})
    assert client.list("same", "same~", partition_key="home", use_index=index) == keys
    assert client.get("same", partition_key="home", use_index=index)[0] == keys[0]


def test_indexes_are_apart(client: Any, space: str, index: str) -> None:
    client.put(f"{space}a", "1", secondary_indexes={index: "x", f"{index}-2": "y"})
    client.put(f"{space}b", "2", secondary_indexes={f"{index}-2": "x"})
    assert client.list("a", "z", use_index=index) == [f"{space}a"]
    assert client.list("x", "x~", use_index=f"{index}-2") == [f"{space}b"]
    assert client.list("y", "y~", use_index=f"{index}-2") == [f"{space}a"]
    assert client.list("a", "z", use_index=f"{index}-3") == []
    assert list(client.range_scan("a", "z", use_index=f"{index}-3")) == []
    with pytest.raises(oxia.ex.KeyNotFound):
        client.get("x", use_index=f"{index}-3")


def test_overwriting_replaces_the_entries(client: Any, space: str, index: str) -> None:
    client.put(f"{space}a", "1", secondary_indexes={index: "old"})
    client.put(f"{space}a", "2", secondary_indexes={index: "new"})
    assert client.list("old", "old~", use_index=index) == []
    assert client.get("new", use_index=index)[:2] == (f"{space}a", b"2")
    client.put(f"{space}a", "3")
    assert client.list("a", "z", use_index=index) == []


def test_deleting_removes_the_entries(client: Any, fruits: dict[str, str], space: str, index: str) -> None:
    client.delete(f"{space}key-0")
    client.delete_range(f"{space}key-2", f"{space}key-8")
    assert client.list("k", "l", use_index=index) == [f"{space}key-{number}" for number in (1, 8, 9)]
    with pytest.raises(oxia.ex.KeyNotFound):
        client.get("k0", use_index=index)


def test_a_failed_put_leaves_the_entries(client: Any, space: str, index: str) -> None:
    client.put(f"{space}a", "1", secondary_indexes={index: "old"})
    with pytest.raises(oxia.ex.UnexpectedVersionId):
        client.put(f"{space}a", "2", expected_version_id=-1, secondary_indexes={index: "new"})
    assert client.list("a", "z", use_index=index) == [f"{space}a"]
    assert client.list("new", "new~", use_index=index) == []


def test_a_get_by_index_returns_the_record(client: Any, fruits: dict[str, str], space: str, index: str) -> None:
    key, value, version = client.get("k3", use_index=index)
    assert (key, value) == (f"{space}key-3", f"value of {space}key-3".encode())
    assert version.version_id() == client.get(key)[2].version_id()
    assert client.get("k3", use_index=index, include_value=False)[:2] == (key, None)


@pytest.mark.parametrize(
    ("comparison", "secondary", "found"),
    [
        ("EQUAL", "k4", 4),
        ("EQUAL", "k", None),
        ("EQUAL", "k44", None),
        ("FLOOR", "k4", 4),
        ("FLOOR", "k44", 4),
        ("FLOOR", "z", 9),
        ("FLOOR", "a", None),
        ("CEILING", "k4", 4),
        ("CEILING", "k44", 5),
        ("CEILING", "a", 0),
        ("CEILING", "z", None),
        ("LOWER", "k4", 3),
        ("LOWER", "k44", 4),
        ("LOWER", "z", 9),
        ("LOWER", "k0", None),
        ("HIGHER", "k4", 5),
        ("HIGHER", "k44", 5),
        ("HIGHER", "a", 0),
        ("HIGHER", "k9", None),
    ],
)
@pytest.mark.usefixtures("fruits")
def test_neighbours_by_index(
    client: Any, space: str, index: str, comparison: str, secondary: str, found: int | None
) -> None:
    kind = oxia.ComparisonType[comparison]
    if found is None:
        with pytest.raises(oxia.ex.KeyNotFound):
            client.get(secondary, comparison_type=kind, use_index=index)
    else:
        key, value, _ = client.get(secondary, comparison_type=kind, use_index=index)
        assert (key, value) == (f"{space}key-{found}", f"value of {space}key-{found}".encode())


def test_secondary_keys_may_be_paths(client: Any, space: str, index: str) -> None:
    for number, secondary in enumerate(["p/a", "p/b", "p/b/c", "q/a", "p"]):
        client.put(f"{space}{number}", "v", partition_key="home", secondary_indexes={index: secondary})
    listed = client.list("p/", "p//", partition_key="home", use_index=index)
    assert listed == [f"{space}0", f"{space}1"]
    assert client.get("p/b/c", partition_key="home", use_index=index)[0] == f"{space}2"


def test_an_index_of_ephemeral_records_is_cleared_with_them(client: Any, other: Any, space: str, index: str) -> None:
    other.put(f"{space}e", "v", ephemeral=True, secondary_indexes={index: "e"})
    client.put(f"{space}p", "v", secondary_indexes={index: "p"})
    assert sorted(client.list("a", "z", use_index=index)) == [f"{space}e", f"{space}p"]
    other.close()
    assert client.list("a", "z", use_index=index) == [f"{space}p"]
    assert [key for key, _, _ in client.range_scan("a", "z", use_index=index)] == [f"{space}p"]
    with pytest.raises(oxia.ex.KeyNotFound):
        client.get("e", use_index=index)
