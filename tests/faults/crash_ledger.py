"""What one writer asked for and was told, and what its records must therefore be."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from metastore.pb import oxia_pb2 as pb

INDEX_NAME = b"by-color"
COLORS = 5
KEYS = 24
PUTS_MAX = 4
DELETES_MAX = 2
NUMBER = b"%020d"
ABSENT = -1


@dataclass(frozen=True)
class Expected:
    """A record as it must be; its version is the one with which `batch` answered its put number `place`."""

    value: bytes
    modifications: int
    session_id: int | None
    colors: frozenset[bytes]
    batch: int
    place: int


@dataclass(frozen=True)
class News:
    """What one write must tell subscribers of one key."""

    type: int
    range_end: bytes | None = None
    version: int | None = None


State = dict[bytes, Expected]


@dataclass
class Batch:
    """One write request with everything that it must do. All its effects are known beforehand but the versions."""

    number: int
    request: pb.WriteRequest
    changes: dict[bytes, Expected | None] = field(default_factory=dict)
    news: dict[bytes, News] = field(default_factory=dict)
    put_statuses: list[int] = field(default_factory=list)
    put_keys: list[bytes] = field(default_factory=list)
    delete_statuses: list[int] = field(default_factory=list)
    versions: list[pb.Version] | None = None
    """Of the puts, once answered."""


class Ledger:
    """One writer's own part of the key space: the state to which the answers so far oblige the server.

    `growth` is the part of its batches that add a record for good.
    """

    def __init__(self, writer: int, seed: int, value_bytes_max: int, growth: float) -> None:
        self.prefix = b"writer-%d." % writer
        self.counter = self.prefix + b"counter"
        self.session_id: int | None = None
        self.is_session_ending = False
        """The session's end was asked for, and nobody knows yet whether it came."""
        self.ended_sessions: list[int] = []
        self.history: list[dict[bytes, News]] = []
        """What subscribers must have been told by the settled writes, in order."""
        self.acknowledged_count = 0
        self.lost_count = 0
        """Batches whose answer did not come and that were not applied."""
        self.unannounced_count = 0
        """Batches whose answer did not come and that were applied."""
        self._random = random.Random(seed)
        self._value_bytes_max = value_bytes_max
        self._growth = growth
        self._next_number = 0
        self._settled: State = {}
        self._versions: dict[bytes, pb.Version] = {}
        self._planned: State = {}
        self._pending: list[Batch] = []
        self._answered = 0

    # -- planning

    def plan(self) -> Batch:
        """The next batch, as if all before it will be applied. It always counts the writer's counter up."""
        batch = Batch(self._next_number, pb.WriteRequest(shard=0))
        self._next_number += 1
        self._put(batch, self.counter, b"%d" % batch.number)
        if self._planned[self.counter].modifications and self._random.random() < 0.2:
            self._put_refused(batch)
        keys = [self.prefix + b"key-%02d" % number for number in self._random.sample(range(KEYS), KEYS)]
        puts, deletes = self._random.randint(1, PUTS_MAX), self._random.randint(0, DELETES_MAX)
        for key in keys[:puts]:
            self._put_variously(batch, key)
        for key in keys[puts : puts + deletes]:
            self._delete(batch, key)
        if self._random.random() < self._growth:
            self._put_variously(batch, self.prefix + b"more-%06d" % batch.number)
        choice = self._random.random()
        if choice < 0.3:
            for _ in range(self._random.randint(1, 2)):
                self._put_sequence(batch)
        elif choice < 0.4:
            self._delete_sequence(batch)
        self._pending.append(batch)
        return batch

    def _value(self, batch: Batch) -> bytes:
        name = b"%d.%d." % (batch.number, len(batch.request.puts))
        return name.ljust(self._random.randint(len(name), self._value_bytes_max), b"=")

    def _put(
        self,
        batch: Batch,
        key: bytes,
        value: bytes,
        session_id: int | None = None,
        colors: frozenset[bytes] = frozenset(),
    ) -> None:
        self._expect(batch, key, value, session_id, colors)
        indexes = [pb.SecondaryIndex(index_name=INDEX_NAME, secondary_key=color) for color in sorted(colors)]
        batch.request.puts.add(key=key, value=value, session_id=session_id, secondary_indexes=indexes)

    def _expect(self, batch: Batch, key: bytes, value: bytes, session_id: int | None, colors: frozenset[bytes]) -> None:
        old = self._planned.get(key)
        modifications = 0 if old is None else old.modifications + 1
        place = len(batch.request.puts)
        self._change(batch, key, Expected(value, modifications, session_id, colors, batch.number, place))
        batch.news[key] = News(pb.KEY_CREATED if old is None else pb.KEY_MODIFIED)
        batch.put_statuses.append(pb.OK)
        batch.put_keys.append(b"")

    def _put_refused(self, batch: Batch) -> None:
        """The counter exists: this put alone must fail, and do nothing."""
        batch.request.puts.add(key=self.counter, value=b"never", expected_version_id=ABSENT)
        batch.put_statuses.append(pb.UNEXPECTED_VERSION_ID)
        batch.put_keys.append(b"")

    def _put_variously(self, batch: Batch, key: bytes) -> None:
        kind = self._random.randrange(3)
        colors = [self.prefix + b"color-%d" % number for number in range(COLORS)]
        self._put(
            batch,
            key,
            self._value(batch),
            self.session_id if kind == 1 else None,
            frozenset(self._random.sample(colors, self._random.randint(1, 2)) if kind == 2 else []),
        )

    def _sequence_keys(self) -> list[bytes]:
        start = self.prefix + b"sequence-"
        return sorted(key for key in self._planned if key.startswith(start))

    def _put_sequence(self, batch: Batch) -> None:
        existing, sequence = self._sequence_keys(), self.prefix + b"sequence"
        numbers = [int(part) for part in existing[-1].removeprefix(sequence + b"-").split(b"-")] if existing else [0, 0]
        deltas = [self._random.randint(1, 3), self._random.randint(0, 3)]
        key = b"-".join([sequence, *(NUMBER % (old + new) for old, new in zip(numbers, deltas, strict=True))])
        value = self._value(batch)
        self._expect(batch, key, value, None, frozenset())
        batch.put_keys[-1] = key
        batch.request.puts.add(key=sequence, value=value, partition_key=b"home", sequence_key_delta=deltas)

    def _delete_sequence(self, batch: Batch) -> None:
        """All but the last key of the sequence."""
        existing = self._sequence_keys()
        if existing:
            start, end = self.prefix + b"sequence-", existing[-1]
            batch.request.delete_ranges.add(start_inclusive=start, end_exclusive=end)
            batch.news[start] = News(pb.KEY_RANGE_DELETED, end)
            for key in existing[:-1]:
                self._change(batch, key, None)

    def _delete(self, batch: Batch, key: bytes) -> None:
        batch.request.deletes.add(key=key)
        batch.delete_statuses.append(pb.OK if key in self._planned else pb.KEY_NOT_FOUND)
        if key in self._planned:
            batch.news[key] = News(pb.KEY_DELETED)
            self._change(batch, key, None)

    def _change(self, batch: Batch, key: bytes, expected: Expected | None) -> None:
        batch.changes[key] = expected
        _assign(self._planned, key, expected)

    # -- the answers

    @property
    def unanswered_count(self) -> int:
        return len(self._pending) - self._answered

    def answered(self, response: pb.WriteResponse) -> None:
        """Takes the answer to the oldest batch that has none, and judges it."""
        batch = self._pending[self._answered]
        assert [put.status for put in response.puts] == batch.put_statuses, (batch, response)
        assert [put.key for put in response.puts] == batch.put_keys, (batch, response)
        assert [delete.status for delete in response.deletes] == batch.delete_statuses, (batch, response)
        assert len(response.delete_ranges) == len(batch.request.delete_ranges)
        batch.versions = [put.version for put in response.puts]
        self._answered += 1
        self.acknowledged_count += 1

    def settle(self, records: Mapping[bytes, pb.GetResponse]) -> None:
        """Finds out after a crash how far the server has got, and that it has got there exactly.

        The counter says which batch was the last. It must be among those that may be; then every record must
        be what that batch left behind, and there must be no other.
        """
        if self.is_session_ending:
            self._settle_session_end(records)
        applied = self._applied_count(records)
        assert applied >= self._answered, f"{self._answered} batches were acknowledged, {applied} are there"
        self.unannounced_count += applied - self._answered
        self.lost_count += len(self._pending) - applied
        for batch in self._pending[:applied]:
            self._settle_batch(batch)
        self._pending, self._answered = [], 0
        self._planned = dict(self._settled)
        assert records.keys() == self._settled.keys(), sorted(records.keys() ^ self._settled.keys())
        for key, expected in self._settled.items():
            self._check_record(key, expected, records[key])
        self._versions = {key: record.version for key, record in records.items()}

    def _applied_count(self, records: Mapping[bytes, pb.GetResponse]) -> int:
        values = [b"%d" % batch.number for batch in self._pending]
        settled = self._settled.get(self.counter)
        before = None if settled is None else settled.value
        found = records[self.counter].value if self.counter in records else None
        return [before, *values].index(found)

    def _settle_batch(self, batch: Batch) -> None:
        news = dict(batch.news)
        for key, expected in batch.changes.items():
            _assign(self._settled, key, expected)
            self._versions.pop(key, None)
            if expected is not None and batch.versions is not None:
                version = batch.versions[expected.place]
                self._versions[key] = version
                news[key] = News(news[key].type, None, version.version_id)
        self.history.append(news)

    def _check_record(self, key: bytes, expected: Expected, record: pb.GetResponse) -> None:
        version = record.version
        session_id = version.session_id if version.HasField("session_id") else None
        found = (record.value, version.modifications_count, session_id)
        assert found == (expected.value, expected.modifications, expected.session_id), (key, expected, record)
        if key in self._versions:
            assert version == self._versions[key], (key, expected, record)

    # -- what follows from the records

    def index_entries(self) -> Iterator[tuple[bytes, bytes]]:
        """The secondary and primary keys that must be in the index."""
        for key, expected in self._settled.items():
            for color in expected.colors:
                yield color, key

    # -- the end of the session

    def session_keys(self) -> list[bytes]:
        """The records that end with the session."""
        if self.session_id is None:
            return []
        return [key for key, expected in self._settled.items() if expected.session_id == self.session_id]

    def session_ended(self) -> None:
        """The session was closed: its records are gone."""
        assert self.session_id is not None
        gone = self.session_keys()
        assert gone, "only a session with records is closed: they tell whether it was"
        for key in gone:
            del self._settled[key], self._versions[key]
        self.history.append({key: News(pb.KEY_DELETED) for key in gone})
        self._planned = dict(self._settled)
        self.ended_sessions.append(self.session_id)
        self.session_id = None
        self.is_session_ending = False

    def _settle_session_end(self, records: Mapping[bytes, pb.GetResponse]) -> None:
        """A close without an answer has taken all records of the session, or none."""
        assert not self._pending, "nothing is written while the session is being closed"
        if any(key in records for key in self.session_keys()):
            self.is_session_ending = False
        else:
            self.session_ended()


def _assign(state: State, key: bytes, expected: Expected | None) -> None:
    if expected is None:
        state.pop(key, None)
    else:
        state[key] = expected
