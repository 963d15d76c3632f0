"""The rows of a selection, from the names of znodes. Pure: over whatever view of the tree there is.

The view may be of several moments. What was removed in between is left out; what else changed, the reader makes good.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from metastore.providers.zookeeper.layout import Identity, Layout
from metastore.providers.zookeeper.names import is_digest, name_of, parts_of
from metastore.providers.zookeeper.records import Stored
from metastore.providers.zookeeper.selection import Row, Selection
from metastore.providers.zookeeper.view import View


def rows_of(view: View, layout: Layout, selection: Selection) -> list[Row]:
    """All rows of a selection, in order."""
    table = layout.records if selection.index is None else layout.index(selection.index)
    directories = _directories(view, table, selection)
    view.need(names=[path for path, _ in directories])
    view.need([f"{path}/{name}" for path, _ in directories for name in view.names(path) if is_digest(name)])
    found: list[Row | None] = []
    for path, directory in directories:
        for name in view.names(path):
            if selection.index is None:
                identity = _identity(view, path, directory, name)
                found.append(None if identity is None else selection.row_of_key(identity))
            elif parts := _meant(view, path, name):
                found.append(selection.row_of_entry(directory + parts[0], Identity(*parts[1:])))
    return sorted([row for row in found if row is not None], key=Row.rank)


def identities_in(view: View, layout: Layout, directory: str) -> list[Identity]:
    """The records with keys in one directory, in no order."""
    path = layout.record(Identity(directory)).directories[0].path
    names = view.names(path)
    view.need([f"{path}/{name}" for name in names if is_digest(name)])
    found = [_identity(view, path, directory, name) for name in names]
    return [identity for identity in found if identity is not None]


def identities_owned(view: View, layout: Layout, session_id: int, count_max: int) -> list[Identity]:
    """Some of the records that a session has, in no order."""
    path = layout.owned_by(session_id)
    names = view.names(path)[:count_max]
    view.need([f"{path}/{name}" for name in names if is_digest(name)])
    found = [_meant(view, path, name) for name in names]
    return [Identity(*parts) for parts in found if parts]


def _directories(view: View, table: str, selection: Selection) -> list[tuple[str, str]]:
    """The paths of the directories that may hold something, and what they stand for."""
    single = selection.single_directory()
    if single is not None:
        return [(f"{table}/{name_of(single)}", single)]
    names = view.names(table)
    view.need([f"{table}/{name}" for name in names if is_digest(name)])
    found = [(name, _meant(view, table, name)) for name in names]
    return [(f"{table}/{name}", parts[0]) for name, parts in found if parts and selection.may_meet(parts[0])]


def _meant(view: View, path: str, name: str) -> Sequence[str]:
    """The parts of a name; empty if it is a digest and its znode, which would tell them, is gone."""
    if not is_digest(name):
        return parts_of(name)
    node = view.node(f"{path}/{name}")
    return [] if node is None else [str(part) for part in json.loads(node.data)]


def _identity(view: View, path: str, directory: str, name: str) -> Identity | None:
    """The record of a name in a directory of records; None if it is a digest, and the record gone."""
    if is_digest(name):
        node = view.node(f"{path}/{name}")
        return None if node is None else Stored.decode(node.data).identity
    leaf, *partition = parts_of(name)
    return Identity(directory + leaf, *partition)
