"""What the operations do that follow changes: they print what comes, until interrupted or as often as asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import islice

from metastore.client.output import LiveRows, value_cell
from metastore.client.ranges import prefix_range
from metastore.commandline import CommandError, UsageError
from metastore.interface import (
    BatchKind,
    BlockingStore,
    BlockingWatch,
    Change,
    InvalidRequest,
    Record,
    StoreError,
    WatchBatch,
    exactly,
)
from metastore.tables import Cell, Row, cell_text, moment_text, write_rows

NOTIFICATION_COLUMNS = {"shard": 5, "offset": 10, "timestamp": 24, "type": 13, "version_id": 10, "key": 3}
WATCH_COLUMNS = {"type": 14, "key": 24, "version_id": 10, "value": 24, "previous_value": 14}
"""For people."""
_PLACE = ("type", "shard", "offset", "timestamp", "key", "secondary_key", "version_id", "value", "previous_value")
WATCH_FIELDS = dict.fromkeys((*_PLACE, "token"), 0)
"""For programs."""


def notifications(store: BlockingStore, arguments: argparse.Namespace) -> None:
    with Following(store.watch(snapshot=False)) as following:
        following.skip_to_now()
        rows = LiveRows(NOTIFICATION_COLUMNS, arguments.json)
        for change in islice(following.changes(), arguments.count):
            rows.add(_place_cells(change))


def watch(store: BlockingStore, arguments: argparse.Namespace) -> None:
    wanted = exactly(arguments.prefix) if arguments.exact else prefix_range(arguments.prefix, store.key_sorting)
    begun = store.watch(
        wanted,
        index=arguments.index,
        partition_key=arguments.partition_key,
        resume=arguments.from_token,
        snapshot=not arguments.no_snapshot,
        previous_values=arguments.previous,
    )
    columns = WATCH_FIELDS if arguments.json else WATCH_COLUMNS
    if not arguments.previous:
        columns = {name: width for name, width in columns.items() if name != "previous_value"}
    with Following(begun) as following:
        rows = LiveRows(columns, arguments.json)
        for row in WatchRows(arguments).of(following):
            rows.add(row)


def check_watch(arguments: argparse.Namespace) -> None:
    """Refuses what makes no sense before anything is opened."""
    if arguments.from_token is not None and arguments.no_snapshot:
        raise UsageError("watch: a token begins without a snapshot anyway: give --from-token or --no-snapshot")
    if arguments.exact and not arguments.prefix:
        raise UsageError("watch: --exact needs to know which key")


def sequence_updates(store: BlockingStore, arguments: argparse.Namespace) -> None:
    keys = store.watch_sequence(arguments.key, partition_key=arguments.partition_key)
    for key in islice(keys, arguments.count):
        if arguments.json:
            write_rows(["key"], [{"key": key}], sys.stdout, as_json=True, live=True)
        else:
            print(cell_text(key), flush=True)


class Following:
    """A watch, and where to go on if it breaks off."""

    def __init__(self, watch: BlockingWatch) -> None:
        self._watch = watch
        self._token: str | None = None

    def batches(self) -> Iterator[WatchBatch]:
        """What comes. An error says where to go on: behind the batch before the one that did not come."""
        while True:
            try:
                batch = next(self._watch, None)
            except InvalidRequest:
                raise
            except StoreError as error:
                where = f" (go on with: watch --from-token {self._token})" if self._token else ""
                raise CommandError(f"{error}{where}") from error
            if batch is None:
                return
            yield batch
            self._token = batch.token or self._token

    def skip_to_now(self) -> None:
        """Waits until the watch stands."""
        self._token = next(self.batches()).token

    def changes(self) -> Iterator[Change]:
        for batch in self.batches():
            yield from batch.changes

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()


class WatchRows:
    """What a watch tells, as rows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments

    def of(self, following: Following) -> Iterator[Row]:
        """All of it, up to as many changes as asked for."""
        left = self._arguments.count
        for batch in following.batches():
            changes = batch.changes if left is None else batch.changes[:left]
            is_whole = len(changes) == len(batch.changes)
            yield from self._with_token([*self._rows(batch, changes)], batch.token if is_whole else None)
            if left is not None:
                left -= len(changes)
                if left == 0:
                    return

    def _rows(self, batch: WatchBatch, changes: Iterable[Change]) -> Iterator[dict[str, Cell]]:
        for record in batch.records:
            yield self._row("present", record, key=record.key, timestamp=moment_text(record.version.modified_ms))
        for change in changes:
            cells = self._row(change.kind.value, change.record, **_place_cells(change))
            yield cells | {"previous_value": value_cell(change.previous, self._arguments.hex)}
        is_mark = batch.kind in (BatchKind.SNAPSHOT_BEGIN, BatchKind.SNAPSHOT_END)
        if is_mark or (batch.kind is BatchKind.PROGRESS and self._arguments.json):
            yield self._row(batch.kind.value, None)

    def _row(self, kind: str, record: Record | None, **cells: Cell) -> dict[str, Cell]:
        row: dict[str, Cell] = dict.fromkeys(WATCH_FIELDS)
        if record is not None:
            row["value"] = value_cell(record, self._arguments.hex)
            row["version_id"] = record.version.version_id
            row["secondary_key"] = record.secondary_key
        return row | cells | {"type": kind}

    @staticmethod
    def _with_token(rows: list[dict[str, Cell]], token: str | None) -> list[dict[str, Cell]]:
        """The token goes on behind all of a batch: it stands on its last row."""
        if rows:
            rows[-1]["token"] = token
        return rows


def _place_cells(change: Change) -> dict[str, Cell]:
    """What happened, where and when."""
    return {
        "shard": change.shard,
        "offset": change.offset,
        "timestamp": moment_text(change.time_ms),
        "type": change.kind.value,
        "version_id": None if change.record is None else change.record.version.version_id,
        "key": change.key,
    }
