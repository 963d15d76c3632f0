"""What must be true of the znodes of a store at every moment, whatever has happened to those who write it."""

from __future__ import annotations

from collections.abc import Mapping

from metastore.providers.zookeeper.changes import LogEntry
from metastore.providers.zookeeper.head import Head
from metastore.providers.zookeeper.layout import Layout, directory_of
from metastore.providers.zookeeper.records import Stored
from metastore.providers.zookeeper.sequences import numbers_of

Nodes = Mapping[str, bytes]
"""The data of every znode, by its path."""


def audit(nodes: Nodes, layout: Layout) -> list[Stored]:
    """Compares every znode with what the records and the head say; returns the records."""
    head = Head.decode(nodes[layout.head])
    records = [Stored.decode(data) for path, data in _below(nodes, layout.records, 2).items()]
    expected = {layout.store, layout.head, *layout.tables}
    for stored in records:
        spots = [layout.record(stored.identity)]
        spots += [layout.index_entry(name, key, stored.identity) for name, key in stored.header.indexes]
        session_id = stored.header.version.session_id
        spots += [] if session_id is None else [layout.owned(session_id, stored.identity)]
        for spot in spots:
            expected.update(spot.paths())
        assert stored.version_id < head.next_version
        assert nodes[layout.record(stored.identity).path] == stored.encode()
    expected |= _audit_log(nodes, layout, head)
    expected |= _audit_counters(nodes, layout, records)
    markers = {*_below(nodes, layout.sessions, 1), *_below(nodes, layout.askers, 1)}
    actual = {path for path in nodes if path.startswith(layout.root + "/")}
    assert actual - markers == expected
    return records


def _below(nodes: Nodes, path: str, levels: int) -> dict[str, bytes]:
    depth = path.count("/") + levels
    return {other: data for other, data in nodes.items() if other.startswith(path + "/") and other.count("/") == depth}


def _audit_log(nodes: Nodes, layout: Layout, head: Head) -> set[str]:
    paths = [layout.log_entry(number) for number in range(head.oldest, head.next)]
    assert sum(len(nodes[path]) for path in paths) == head.log_bytes
    assert [LogEntry.decode(nodes[path]).number for path in paths] == list(range(head.oldest, head.next))
    return set(paths)


def _audit_counters(nodes: Nodes, layout: Layout, records: list[Stored]) -> set[str]:
    """Every counter names the greatest key of its sequence."""
    counters = _below(nodes, layout.sequences, 1)
    for path, data in counters.items():
        greatest = data.decode()
        prefixes = [greatest[:end] for end in range(len(directory_of(greatest)), len(greatest))]
        homes = {stored.identity.home for stored in records if stored.identity.key == greatest}
        named = [(prefix, home) for prefix in prefixes for home in homes if layout.counter(prefix, home).path == path]
        assert len(named) == 1, f"{path} says {greatest}, which is no record of its sequence"
        [(prefix, home)] = named
        numbers = [numbers_of(prefix, each.identity.key) for each in records if each.identity.home == home]
        assert numbers_of(prefix, greatest) == max(numbers)
    return set(counters)
