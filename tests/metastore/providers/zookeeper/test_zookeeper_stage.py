"""Changes laid over a view, and the operations that they come to."""

from __future__ import annotations

import pytest

from metastore.providers.zookeeper.layout import Spot
from metastore.providers.zookeeper.operations import Kind, Operation
from metastore.providers.zookeeper.stage import Stage
from metastore.providers.zookeeper.view import Inconsistent, Missing, Node, View

HEAD = "/r/head"
RECORDS = "/r/records"
DIRECTORY = Spot(f"{RECORDS}/=d", b"what it means")
LEAF = Spot(f"{DIRECTORY.path}/=l", directories=(DIRECTORY,))


def stage(**nodes: Node | None) -> Stage:
    """A stage on these znodes; `directory` and `leaf` are absent unless they are given."""
    paths = {"directory": DIRECTORY.path, "leaf": LEAF.path, "marker": "/r/sessions/1"}
    known: dict[str, Node | None] = {HEAD: Node(b"head", 0, 7), DIRECTORY.path: None, LEAF.path: None}
    known.update({paths[name]: node for name, node in nodes.items()})
    return Stage(View(known, {RECORDS: ("=d",), DIRECTORY.path: ("=l",)}), (RECORDS, "/r/sessions"))


def test_directories_come_with_their_first_child() -> None:
    made = stage()
    made.put(LEAF, b"data")
    assert made.operations(HEAD) == [
        Operation(Kind.CHECK, HEAD, version=7),
        Operation(Kind.CREATE, DIRECTORY.path, b"what it means"),
        Operation(Kind.CREATE, LEAF.path, b"data"),
    ]
    assert made.node(LEAF.path) == Node(b"data")
    assert set(made.names(DIRECTORY.path)) == {"=l"}


def test_directories_go_with_their_last_child() -> None:
    made = stage(directory=Node(b"", 1), leaf=Node(b"data"))
    made.remove(LEAF.path)
    assert made.operations(HEAD)[1:] == [
        Operation(Kind.DELETE, LEAF.path),
        Operation(Kind.DELETE, DIRECTORY.path),
    ]
    assert made.names(DIRECTORY.path) == ()
    assert made.names(RECORDS) == ()


def test_a_directory_with_another_child_stays() -> None:
    made = stage(directory=Node(b"", 2), leaf=Node(b"data"))
    made.remove(LEAF.path)
    assert made.operations(HEAD)[1:] == [Operation(Kind.DELETE, LEAF.path)]


def test_what_is_undone_before_it_is_committed_is_not_done() -> None:
    made = stage(directory=Node(b"what it means", 1), leaf=Node(b"data"))
    made.remove(LEAF.path)
    made.put(LEAF, b"data")
    assert made.operations(HEAD)[1:] == []
    made.put(LEAF, b"other")
    assert made.operations(HEAD)[1:] == [Operation(Kind.SET, LEAF.path, b"other")]
    made = stage()
    made.put(LEAF, b"data")
    made.remove(LEAF.path)
    assert made.operations(HEAD)[1:] == []


def test_the_head_is_compared_whatever_is_changed() -> None:
    made = stage(marker=Node(b""))
    made.check("/r/sessions/1")
    made.put(Spot(HEAD), b"next")
    assert made.operations(HEAD) == [
        Operation(Kind.SET, HEAD, b"next", 7),
        Operation(Kind.CHECK, "/r/sessions/1"),
    ]


def test_a_mark_is_gone_back_to() -> None:
    made = stage()
    made.put(LEAF, b"data")
    mark = made.mark()
    made.remove(LEAF.path)
    made.check(HEAD)
    made.undo(mark)
    assert [operation.kind for operation in made.operations(HEAD)] == [Kind.CHECK, Kind.CREATE, Kind.CREATE]


def test_what_is_not_known_is_asked_for() -> None:
    with pytest.raises(Missing) as caught:
        stage().put(Spot("/r/records/=x/=y", directories=(Spot("/r/records/=x"),)), b"")
    assert caught.value.nodes == ["/r/records/=x"]
    with pytest.raises(Missing) as caught:
        stage().names("/r/elsewhere")
    assert caught.value.names == ["/r/elsewhere"]


def test_what_does_not_fit_together_is_noticed() -> None:
    with pytest.raises(Inconsistent):
        stage().remove(LEAF.path)
    with pytest.raises(Inconsistent):
        stage(directory=Node(b"", 1)).remove(DIRECTORY.path)
    with pytest.raises(Inconsistent):
        stage(leaf=Node(b"")).remove(LEAF.path)
    with pytest.raises(Inconsistent):
        stage(directory=Node(b"", 1), leaf=Node(b"")).create(LEAF.path, b"")
