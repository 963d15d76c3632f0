"""What the operations on records do: one function each, from parsed arguments to printed rows."""

from __future__ import annotations

import argparse
import os
import sys

from metastore.client.output import VERSION_COLUMNS, harmless, hex_dump, record_cells, version_cells
from metastore.commandline import CommandError, UsageError
from metastore.interface import BlockingStore, Comparison, Range
from metastore.tables import Row, cell_text, write_fields, write_rows


def put(store: BlockingStore, arguments: argparse.Namespace) -> None:
    value = sys.stdin.buffer.read() if arguments.std_in else os.fsencode(arguments.value)
    stored = store.put(
        arguments.key,
        value,
        expected=arguments.expected_version,
        partition_key=arguments.partition_key,
        sequence_deltas=arguments.sequence_keys_deltas,
        indexes=arguments.indexes,
    )
    write_fields({"key": stored.key, **version_cells(stored.version)}, sys.stdout, as_json=arguments.json)


def check_put(arguments: argparse.Namespace) -> None:
    """Refuses what makes no sense before anything is opened."""
    if arguments.std_in == (arguments.value is not None):
        raise UsageError("put: give either a VALUE or --std-in")


def get(store: BlockingStore, arguments: argparse.Namespace) -> None:
    record = store.get(
        arguments.key,
        comparison=Comparison(arguments.comparison_type),
        index=arguments.index,
        partition_key=arguments.partition_key,
    )
    if record is None:
        raise _no_such_key("get", arguments)
    cells = record_cells(record, arguments.hex)
    if arguments.json:
        write_fields(cells, sys.stdout, as_json=True)
        return
    assert record.value is not None, "the value was asked for"
    if arguments.hex:
        print(hex_dump(record.value), end="")
    elif arguments.include_version or sys.stdout.isatty():
        print(harmless(record.value))
    else:
        sys.stdout.buffer.write(record.value)
    if arguments.include_version:
        print("---")
        del cells["value"]
        write_fields(cells, sys.stdout)


def delete(store: BlockingStore, arguments: argparse.Namespace) -> None:
    was_there = store.delete(arguments.key, expected=arguments.expected_version, partition_key=arguments.partition_key)
    if not was_there:
        raise _no_such_key("delete", arguments)
    if arguments.json:
        write_fields({"key": arguments.key, "deleted": True}, sys.stdout, as_json=True)
    else:
        print(f"deleted {cell_text(arguments.key)}")


def delete_range(store: BlockingStore, arguments: argparse.Namespace) -> None:
    store.delete_range(_range(arguments), partition_key=arguments.partition_key)
    cells: Row = {"key_min": arguments.key_min, "key_max": arguments.key_max, "deleted": True}
    if arguments.json:
        write_fields(cells, sys.stdout, as_json=True)
    else:
        print(f"deleted all from {cell_text(arguments.key_min)} to before {cell_text(arguments.key_max)}")


def list_keys(store: BlockingStore, arguments: argparse.Namespace) -> None:
    keys = store.list(_range(arguments), index=arguments.index, partition_key=arguments.partition_key)
    if arguments.json:
        write_rows(["key"], ({"key": key} for key in keys), sys.stdout, as_json=True)
        return
    for key in keys:
        print(cell_text(key))


def range_scan(store: BlockingStore, arguments: argparse.Namespace) -> None:
    columns = ["key", "value"]
    if arguments.include_version or arguments.json:
        columns += VERSION_COLUMNS
    records = store.scan(_range(arguments), index=arguments.index, partition_key=arguments.partition_key)
    rows = (record_cells(record, arguments.hex) for record in records)
    write_rows(columns, rows, sys.stdout, as_json=arguments.json)


def _range(arguments: argparse.Namespace) -> Range:
    return Range(arguments.key_min, arguments.key_max)


def _no_such_key(operation: str, arguments: argparse.Namespace) -> CommandError:
    return CommandError(f"{operation} {arguments.key!r}: no such key")
