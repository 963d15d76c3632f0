"""A store in a directory of this machine, read without asking whoever serves it: a live one, or a copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from types import MappingProxyType

from metastore.directory import shard_directory
from metastore.engine.cutting import Cuts, cuts
from metastore.engine.errors import InvalidRequest
from metastore.engine.keys import KeyOrder, key_order
from metastore.engine.operations import Range
from metastore.engine.record import entry_of
from metastore.engine.routing import place_of
from metastore.engine.scan import open_bounds
from metastore.log import LogFollower, LogPlace, LogTrimmed
from metastore.spark.errors import PointGone, WrongOption
from metastore.spark.records import Records, records_of
from metastore.spark.stores.entries import keys_in, keys_of, secondary_keys
from metastore.spark.stores.files import DirectoryShards, State
from metastore.spark.stores.leaves import Found
from metastore.spark.stores.model import Advance, ChangedRecord, Piece, Scan, SourceStore
from metastore.spark.stores.past import Past, parts
from metastore.spark.stores.point import Point
from metastore.watch.effects import effects_of
from metastore.watch.matching import matches_of
from metastore.watch.news import ChangeKind
from metastore.watch.spec import Selector

LOG_BYTES = 1 << 20
"""Of the log, read at a time."""

KIND_NAMES = MappingProxyType({kind: kind.name.lower() for kind in ChangeKind})


class DirectoryStore(SourceStore):
    """A namespace of a data directory."""

    is_consistent = True
    is_held_by_reader = True

    def __init__(self, shards: DirectoryShards) -> None:
        self._shards = shards
        self._namespace = shards.namespace
        self._order = key_order(self._namespace.key_sorting)
        self.key_sorting = shards.namespace.key_sorting
        self.shards = list(shards.namespace.shard_ids)
        self._followers: dict[int, LogFollower] = {}

    def shard_of(self, partition_key: str) -> int:
        return self._namespace.first_shard + place_of(partition_key.encode(), self._namespace.shards)

    # -- points

    def pin(self, hold_ms: int, *, is_passing: bool = False) -> Point:
        return self._shards.pin()

    def check_point(self, point: Point) -> None:
        shards = self._shards
        if point.store != shards.identity:
            raise WrongOption(f"the point is of store {point.store}, and {shards.path} is {shards.identity}")

    def release(self, point: Point) -> None:
        """Nothing holds it but who pinned it."""

    # -- reading

    def _bounds(self, piece: Piece) -> tuple[bytes, bytes]:
        try:
            return open_bounds(self._order, Range(piece.start, piece.end, piece.index))
        except InvalidRequest as error:
            raise WrongOption(str(error)) from None

    def cuts(self, piece: Piece, count: int) -> Cuts:
        assert piece.shard is not None
        self._bounds(piece)
        with closing(self._shards.files(piece.shard)) as files:
            return cuts(files.environment, self._order, Range(piece.start, piece.end, piece.index), count)

    def scan(self, piece: Piece, point: Point, rows: int) -> Iterator[Records]:
        with self.scans(piece.shard, point) as scan:
            yield from scan(piece, rows)

    @contextmanager
    def scans(self, shard: int | None, point: Point) -> Iterator[Scan]:
        assert shard is not None
        state = State(**point.shards[shard])
        # An environment can be open only once in a process, and one look at the log is enough for all.
        with closing(self._shards.files(shard, state.log_end)) as files, closing(Past(files, state)) as past:
            yield partial(self._checked, past)

    def _checked(self, past: Past, piece: Piece, rows: int) -> Iterator[Records]:
        with past.kept():
            for records in self._scanned(past, piece, rows):
                past.check()
                yield records

    def _scanned(self, past: Past, piece: Piece, rows: int) -> Iterator[Records]:
        assert piece.shard is not None
        low, high = self._bounds(piece)
        if piece.index is None:
            yield from past.records(low, high, rows, piece.shard)
            return
        if piece.keys_only:
            for found in past.found_entries(low, high, rows):
                if isinstance(found, Found):
                    yield keys_in(found, piece.shard, self._order)
                else:
                    yield keys_of(found, piece.shard, self._order)
            return
        for entries in past.entries(low, high, rows):
            at = 0
            for records in parts(past.record(self._order.encode(primary)) for _, primary in entries):
                keys = secondary_keys(self._order, entries[at : at + len(records)])
                yield records_of(records, piece.shard, keys)
                at += len(records)

    # -- the change log

    def _follower(self, shard: int) -> LogFollower:
        if shard not in self._followers:
            self._followers[shard] = LogFollower(shard_directory(self._shards.path, shard) / "log")
        return self._followers[shard]

    def advance(self, piece: Piece, offset: int | None, changes_max: int | None) -> Advance:
        assert piece.shard is not None
        follower = self._follower(piece.shard)
        end = follower.end()
        first = follower.first_offset
        if offset is None or changes_max is None:
            return Advance(first, end.offset, end.offset, 0)
        found, to_offset = 0, offset
        for at, changes in self._writes(piece, offset, end):
            if found and found + len(changes) > changes_max:
                break
            found, to_offset = found + len(changes), at + 1
            if found >= changes_max:
                break
        return Advance(first, end.offset, to_offset, found)

    def changes(self, piece: Piece, start: int, end: int) -> Iterator[list[ChangedRecord]]:
        assert piece.shard is not None
        present = self._follower(piece.shard).end()
        if present.offset < end:
            raise PointGone(f"shard {piece.shard} ends at {present.offset}, and was read up to {end}: it has lost data")
        for at, changes in self._writes(piece, start, present):
            if at >= end:
                return
            yield changes

    def _writes(self, piece: Piece, offset: int, end: LogPlace) -> Iterator[tuple[int, list[ChangedRecord]]]:
        """The writes from an offset on, and what each changed in a piece."""
        selector = Selector(*self._bounds(piece), piece.index is not None, False)
        assert piece.shard is not None
        follower = self._follower(piece.shard)
        while offset < end.offset:
            try:
                frames = follower.read(offset, end, LOG_BYTES)
            except LogTrimmed as error:
                raise trimmed(piece.shard, offset, error.oldest) from None
            for frame in frames:
                for at, payload in enumerate(frame.entries, frame.first_offset):
                    yield at, changes_of(at, payload, selector, self._order)
                offset = frame.end_offset

    def close(self) -> None:
        """Nothing is open between two reads."""


def trimmed(shard: int, offset: int, oldest: int) -> PointGone:
    """What a stream is told that was away for too long."""
    return PointGone(
        f"shard {shard}: the change log begins at offset {oldest}, and offset {offset} is wanted: the store no longer "
        "keeps it. Begin a new query with a new checkpoint, from a batch read; the store's retention says how long"
    )


def changes_of(offset: int, payload: bytes, selector: Selector, order: KeyOrder) -> list[ChangedRecord]:
    """What a log entry changed in a range."""
    effects = effects_of(offset, payload, order.user_end)
    return [
        ChangedRecord(
            KIND_NAMES[kind],
            order.decode(effect.encoded),
            None if effect.after is None else entry_of(effect.after),
            offset,
            effects.time_ms,
        )
        for kind, effect in matches_of(selector, effects, order)
    ]
