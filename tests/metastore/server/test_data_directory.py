"""The data directory: one owner, and a manifest that no flag overrides."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from metastore.directory import (
    FORMAT,
    LOCK,
    MANIFEST,
    DataDirectory,
    DirectoryError,
    Namespace,
    NamespaceConfig,
    shard_directory,
)

DEFAULT = NamespaceConfig("default", 4)
NAMESPACE: dict[str, Any] = {
    "name": "default",
    "first_shard": 0,
    "shards": 4,
    "key_sorting": "hierarchical",
    "notifications_enabled": True,
}


def opened(path: Path, *wanted: NamespaceConfig) -> list[Namespace]:
    """The namespaces of a directory that is opened, and closed again."""
    directory = DataDirectory(path)
    try:
        return directory.namespaces(wanted or (DEFAULT,))
    finally:
        directory.close()


def refusal(path: Path, *wanted: NamespaceConfig) -> str:
    with pytest.raises(DirectoryError) as refused:
        opened(path, *wanted)
    return str(refused.value)


def test_a_new_directory_is_made_and_remembered(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down"
    made = [Namespace("default", 0, 4, "hierarchical", True)]
    assert opened(path) == made
    assert opened(path) == made
    content = json.loads((path / MANIFEST).read_text())
    assert re.fullmatch("[0-9a-f]{32}", content.pop("identity"))
    assert content == {"format": FORMAT, "namespaces": [NAMESPACE]}
    assert sorted(each.name for each in path.iterdir()) == sorted([LOCK, MANIFEST])


def test_it_has_one_owner_at_a_time(tmp_path: Path) -> None:
    owner = DataDirectory(tmp_path)
    assert f"{tmp_path} is in use" in refusal(tmp_path)
    owner.close()
    assert len(opened(tmp_path)) == 1


def test_it_must_be_a_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in refusal(file)


def test_another_number_of_shards_is_refused_with_the_way_out(tmp_path: Path) -> None:
    opened(tmp_path)
    before = (tmp_path / MANIFEST).read_bytes()
    text = refusal(tmp_path, NamespaceConfig("default", 5))
    assert "4 shards, not 5" in text
    assert "Ask for 4 shards" in text
    assert "new data directory" in text
    assert (tmp_path / MANIFEST).read_bytes() == before


def test_another_order_of_keys_is_refused_with_the_way_out(tmp_path: Path) -> None:
    opened(tmp_path)
    text = refusal(tmp_path, NamespaceConfig("default", 4, "natural"))
    assert "sorted hierarchical, not natural" in text
    assert "Ask for the order hierarchical" in text


def test_notifications_may_be_switched(tmp_path: Path) -> None:
    opened(tmp_path)
    (namespace,) = opened(tmp_path, NamespaceConfig("default", 4, notifications=False))
    assert not namespace.notifications_enabled


def test_namespaces_never_share_a_shard(tmp_path: Path) -> None:
    other, third = NamespaceConfig("other", 2, "natural"), NamespaceConfig("third", 3)
    opened(tmp_path)
    assert opened(tmp_path, DEFAULT, other)[1] == Namespace("other", 4, 2, "natural", True)
    everything = opened(tmp_path, third)
    assert [each.name for each in everything] == ["default", "other", "third"]  # not asked for is not forgotten
    ids = [shard_id for each in everything for shard_id in each.shard_ids]
    assert ids == list(range(9))
    assert len({shard_directory(tmp_path, shard_id) for shard_id in ids}) == len(ids)


def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    text = json.dumps({"format": FORMAT + 1, "namespaces": [NAMESPACE]})
    (tmp_path / MANIFEST).write_text(text)
    assert f"format {FORMAT + 1}" in refusal(tmp_path)
    assert "newer" in refusal(tmp_path)
    assert (tmp_path / MANIFEST).read_text() == text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"{",
        b"[]",
        b"{}",
        b'{"format": "1", "namespaces": []}',
        b'{"format": 1}',
        b'{"format": 1, "namespaces": 3}',
        b'{"format": 1, "namespaces": [{"name": "default"}]}',
        *(
            json.dumps({"format": FORMAT, "namespaces": [NAMESPACE | change]}).encode()
            for change in (
                {"first_shard": 1},
                {"first_shard": "0"},
                {"shards": "4"},
                {"shards": 0},
                {"key_sorting": "random"},
                {"notifications_enabled": 1},
                {"name": "a/b"},
                {"name": 3},
                {"more": 1},
            )
        ),
        json.dumps({"format": FORMAT, "identity": "x", "namespaces": [NAMESPACE]}).encode(),
    ],
)
def test_a_damaged_manifest_is_told_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    text = refusal(tmp_path)
    assert str(tmp_path) in text
    assert "damaged" in text
    assert (tmp_path / MANIFEST).read_bytes() == content


def test_shards_without_a_manifest_are_not_overwritten(tmp_path: Path) -> None:
    shard_directory(tmp_path, 0).mkdir(parents=True)
    assert f"no {MANIFEST}" in refusal(tmp_path)
    assert not (tmp_path / MANIFEST).exists()
