"""What one write does to the tree. Pure: it changes a stage, which knows what it has read.

All of a write goes through here: the record, the entries of its indexes, the list of its session, the counters of
sequences, the entry of the change log and the head. They are committed together or not at all, so they cannot
disagree, whatever happens to the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from metastore.engine.keys import KeyOrder
from metastore.interface import Index, PutResult, Version
from metastore.providers.zookeeper.changes import Effect, LogEntry
from metastore.providers.zookeeper.head import Head, Sweep
from metastore.providers.zookeeper.layout import Identity, Layout, Spot, directory_of, identity_of
from metastore.providers.zookeeper.limits import (
    LOG_BYTES_MAX,
    LOG_ENTRIES_MAX,
    TRIM_BYTES,
    TRIM_ENTRIES,
    TRIM_ENTRIES_MIN,
)
from metastore.providers.zookeeper.listing import identities_in
from metastore.providers.zookeeper.records import Header, Stored
from metastore.providers.zookeeper.sequences import greatest_of, next_key, numbers_of, prefixes_of
from metastore.providers.zookeeper.stage import Stage
from metastore.providers.zookeeper.view import Inconsistent


@dataclass(frozen=True, slots=True)
class Author:
    """Whose an ephemeral record is."""

    session_id: int
    identity: str


class Write:
    """One write, under way on a stage."""

    def __init__(self, stage: Stage, layout: Layout, order: KeyOrder, writer: str, time_ms: int) -> None:
        self.stage = stage
        self.layout = layout
        self.order = order
        self._writer = writer
        self._time_ms = time_ms
        self._effects: list[Effect] = []
        self._stored = 0
        self._is_noted = False

    @property
    def head(self) -> Head:
        """The head, as this write finds it."""
        return head_of(self.stage, self.layout)

    def announce(self, sweep: Sweep) -> None:
        """Says in the head that a range is gone, and notes that in the log, like any write."""
        self._set_head(replace(self.head, sweep=sweep))
        self._is_noted = True

    def end_sweep(self) -> None:
        """Nothing of the range that the head says is gone is there any more."""
        self._set_head(replace(self.head, sweep=None))

    def _set_head(self, head: Head) -> None:
        self.stage.put(Spot(self.layout.head), head.encode())

    # -- looking

    def find(self, identity: Identity) -> Stored | None:
        """The record, if there is one."""
        node = self.stage.node(self.layout.record(identity).path)
        return None if node is None else Stored.decode(node.data)

    def prepare(self, identities: Iterable[Identity], spots: Iterable[Spot] = (), author: Author | None = None) -> None:
        """Asks at once for what it takes to put or remove these records, as far as it can be told beforehand."""
        paths = [self.layout.head]
        for identity in identities:
            paths += self.layout.record(identity).paths()
            paths += [counter.path for counter in self._counters(identity)]
        for spot in spots:
            paths += spot.paths()
        if author is not None:
            paths.append(self.layout.session(author.session_id))
        self.stage.need(paths)

    def prepare_removals(self, identities: Sequence[Identity]) -> list[Stored]:
        """Asks for all that removals need; returns the records that there are."""
        self.prepare(identities)
        found = [stored for stored in map(self.find, identities) if stored is not None]
        spots = [spot for stored in found for spot in self._spots_of(stored.header)]
        self.stage.need([path for spot in spots for path in spot.paths()])
        return found

    def attached(self, identity: Identity, indexes: Iterable[Index], session_id: int | None) -> list[Spot]:
        """The znodes that a record has beside its own: entries of indexes, and its place in its session's list."""
        spots = [self.layout.index_entry(name, key, identity) for name, key in indexes]
        if session_id is not None:
            spots.append(self.layout.owned(session_id, identity))
        return spots

    def _spots_of(self, header: Header) -> list[Spot]:
        return self.attached(header.identity, header.indexes, header.version.session_id)

    # -- changing

    def put(
        self,
        identity: Identity,
        value: bytes,
        indexes: Sequence[Index] = (),
        author: Author | None = None,
        sequence: str | None = None,
    ) -> PutResult:
        """Stores a record, new or in place of the one there is."""
        indexes = tuple(dict.fromkeys(indexes))
        attached = self.attached(identity, indexes, None if author is None else author.session_id)
        self.prepare([identity], attached, author)
        before = self.find(identity)
        if before is not None:
            self._detach(before.header)
        after = Stored(Header(identity, self._next_version(before, author), indexes), value)
        self.stage.put(self.layout.record(identity), after.encode())
        for spot in attached:
            self.stage.put(spot, spot.meaning)
        if before is None:
            self._count(identity, sequence)
        if author is not None:
            self.stage.check(self.layout.session(author.session_id))
        self._effects.append(Effect(before, after.header, sequence))
        self._stored += 1
        return PutResult(identity.key, after.header.version)

    def put_next(
        self,
        prefix: str,
        partition_key: str,
        value: bytes,
        deltas: Sequence[int],
        indexes: Sequence[Index],
        author: Author | None,
    ) -> PutResult:
        """Stores a record under the next key of a sequence."""
        key = next_key(prefix, self.greatest(prefix, partition_key), deltas)
        return self.put(identity_of(key, partition_key), value, indexes, author, prefix)

    def remove(self, stored: Stored) -> None:
        """Removes a record that there is."""
        identity = stored.identity
        self.prepare([identity])
        self._detach(stored.header)
        self.stage.remove(self.layout.record(identity).path)
        for prefix, counter in self._counted(identity):
            if numbers_of(prefix, identity.key) == numbers_of(prefix, counter):
                self.stage.remove(self.layout.counter(prefix, identity.home).path)
        self._effects.append(Effect(stored, None))

    def finish(self) -> None:
        """Notes the effects in the log, and so in the head. A write that had none leaves no trace."""
        if not self._effects and not self._is_noted:
            return
        head = self.head
        entry = LogEntry(head.next, self._time_ms, self._writer, tuple(self._effects)).encode()
        self.stage.create(self.layout.log_entry(head.next), entry)
        self._set_head(
            replace(
                head,
                next=head.next + 1,
                next_version=head.next_version + self._stored,
                log_bytes=head.log_bytes + len(entry),
            )
        )

    def _next_version(self, before: Stored | None, author: Author | None) -> Version:
        return Version(
            version_id=self.head.next_version + self._stored,
            modifications=0 if before is None else before.header.version.modifications + 1,
            created_ms=self._time_ms if before is None else before.header.version.created_ms,
            modified_ms=self._time_ms,
            session_id=None if author is None else author.session_id,
            identity=None if author is None else author.identity,
        )

    def _detach(self, header: Header) -> None:
        spots = self._spots_of(header)
        self.stage.need([path for spot in spots for path in spot.paths()])
        for spot in spots:
            self.stage.remove(spot.path)

    # -- sequences

    def greatest(self, prefix: str, partition_key: str) -> str | None:
        """The greatest key of a sequence."""
        counter = self.stage.node(self.layout.counter(prefix, partition_key).path)
        if counter is not None:
            return counter.data.decode()
        identities = identities_in(self.stage, self.layout, directory_of(prefix))
        return greatest_of(prefix, [each.key for each in identities if each.home == partition_key])

    def _counters(self, identity: Identity) -> list[Spot]:
        return [self.layout.counter(prefix, identity.home) for prefix in prefixes_of(identity.key)]

    def _counted(self, identity: Identity) -> Iterable[tuple[str, str]]:
        """The sequences with a counter that a key belongs to, and the greatest key of each."""
        for prefix in prefixes_of(identity.key):
            node = self.stage.node(self.layout.counter(prefix, identity.home).path)
            if node is not None:
                yield prefix, node.data.decode()

    def _count(self, identity: Identity, sequence: str | None) -> None:
        """A new key: its own sequence counts it, in others it may have become the greatest unasked."""
        for prefix, counter in list(self._counted(identity)):
            if prefix != sequence and numbers_of(prefix, identity.key) > numbers_of(prefix, counter):
                self.stage.remove(self.layout.counter(prefix, identity.home).path)
        if sequence is not None:
            self.stage.put(self.layout.counter(sequence, identity.home), identity.key.encode())


def head_of(stage: Stage, layout: Layout) -> Head:
    """The head on a stage."""
    node = stage.node(layout.head)
    assert node is not None, "a store has a head"
    return Head.decode(node.data)


def trim(stage: Stage, layout: Layout) -> None:
    """Removes the oldest entries of the log where it has grown too long; not each time, and not all at a time."""
    head = head_of(stage, layout)
    oldest, log_bytes = head.oldest, head.log_bytes
    entries = head.next - oldest
    if entries < LOG_ENTRIES_MAX + TRIM_ENTRIES and log_bytes <= LOG_BYTES_MAX:
        return
    count = min(2 * TRIM_ENTRIES, max(TRIM_ENTRIES_MIN, TRIM_BYTES * entries // log_bytes))
    end = oldest + min(entries, count)
    stage.need([layout.log_entry(number) for number in range(oldest, end)])
    while oldest < end and (head.next - oldest > LOG_ENTRIES_MAX or log_bytes > LOG_BYTES_MAX):
        path = layout.log_entry(oldest)
        node = stage.node(path)
        if node is None:
            raise Inconsistent(f"{path} should be there: the log begins at {oldest}")
        stage.remove(path)
        oldest, log_bytes = oldest + 1, log_bytes - len(node.data)
    stage.put(Spot(layout.head), replace(head, oldest=oldest, log_bytes=log_bytes).encode())
