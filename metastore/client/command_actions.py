"""What the operations of `tidemark client` do: one function each, from parsed arguments to printed rows."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

from metastore.client.client import Client
from metastore.client.command_output import (
    harmless,
    hex_dump,
    record_cells,
    timestamp,
    version_cells,
    write_live_rows,
)
from metastore.client.command_session import session
from metastore.client.errors import ClientError, InvalidRequest
from metastore.client.security import Security
from metastore.client.streams import NotificationStream
from metastore.client.values import Comparison
from metastore.commandline import CommandError, UsageError
from metastore.tables import Row, cell_text, write_fields, write_rows

Action = Callable[[Client, argparse.Namespace], None]

VERSION_COLUMNS = (
    "version_id",
    "modifications_count",
    "created_timestamp",
    "modified_timestamp",
    "ephemeral",
    "session_id",
    "client_identity",
)
NOTIFICATION_COLUMNS = {
    "shard": 5,
    "offset": 10,
    "timestamp": 24,
    "type": 13,
    "version_id": 10,
    "key": 3,
    "key_range_end": 13,
}


def perform(arguments: argparse.Namespace) -> None:
    """Runs one operation; what goes wrong becomes the program's message and exit code."""
    try:
        security = Security(
            tls=arguments.tls,
            ca_file=arguments.ca_file,
            cert_file=arguments.cert_file,
            key_file=arguments.key_file,
            token=arguments.auth_token,
            token_file=arguments.auth_token_file,
        )
        with Client(
            arguments.address,
            namespace=arguments.namespace,
            security=security,
            request_timeout_s=arguments.request_timeout,
            key_sorting=arguments.key_sorting,
        ) as client:
            ACTIONS[arguments.operation](client, arguments)
    except InvalidRequest as error:
        raise UsageError(str(error)) from error
    except ClientError as error:
        raise CommandError(str(error)) from error


def put(client: Client, arguments: argparse.Namespace) -> None:
    if arguments.std_in == (arguments.value is not None):
        raise UsageError("put: give either a VALUE or --std-in")
    value = sys.stdin.buffer.read() if arguments.std_in else os.fsencode(arguments.value)
    stored = client.put(
        arguments.key,
        value,
        expected_version=arguments.expected_version,
        partition_key=arguments.partition_key,
        sequence_deltas=arguments.sequence_keys_deltas,
        secondary_indexes=arguments.indexes,
    )
    write_fields({"key": stored.key, **version_cells(stored.version)}, sys.stdout, as_json=arguments.json)


def get(client: Client, arguments: argparse.Namespace) -> None:
    record = client.get(
        arguments.key,
        comparison=Comparison(arguments.comparison_type),
        index=arguments.index,
        partition_key=arguments.partition_key,
    )
    cells = record_cells(record, arguments.hex)
    if arguments.json:
        write_fields(cells, sys.stdout, as_json=True)
        return
    assert record.value is not None
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


def delete(client: Client, arguments: argparse.Namespace) -> None:
    client.delete(
        arguments.key, expected_version=arguments.expected_version, partition_key=arguments.partition_key
    )
    if arguments.json:
        write_fields({"key": arguments.key, "deleted": True}, sys.stdout, as_json=True)
    else:
        print(f"deleted {cell_text(arguments.key)}")


def delete_range(client: Client, arguments: argparse.Namespace) -> None:
    client.delete_range(arguments.key_min, arguments.key_max, partition_key=arguments.partition_key)
    cells: Row = {"key_min": arguments.key_min, "key_max": arguments.key_max, "deleted": True}
    if arguments.json:
        write_fields(cells, sys.stdout, as_json=True)
    else:
        print(f"deleted all from {cell_text(arguments.key_min)} to before {cell_text(arguments.key_max)}")


def list_keys(client: Client, arguments: argparse.Namespace) -> None:
    keys = client.list(
        arguments.key_min,
        arguments.key_max,
        index=arguments.index,
        partition_key=arguments.partition_key,
        include_internal=arguments.internal_keys,
    )
    with closing(keys):
        if arguments.json:
            write_rows(["key"], ({"key": key} for key in keys), sys.stdout, as_json=True)
            return
        for key in keys:
            print(cell_text(key))


def range_scan(client: Client, arguments: argparse.Namespace) -> None:
    columns = ["key", "value"]
    if arguments.include_version or arguments.json:
        columns += VERSION_COLUMNS
    records = client.range_scan(
        arguments.key_min,
        arguments.key_max,
        index=arguments.index,
        partition_key=arguments.partition_key,
        include_internal=arguments.internal_keys,
    )
    with closing(records):
        rows = (record_cells(record, arguments.hex) for record in records)
        write_rows(columns, rows, sys.stdout, as_json=arguments.json)


def notifications(client: Client, arguments: argparse.Namespace) -> None:
    with client.notifications(start_offsets(client, arguments.offsets)) as stream:
        rows = islice(notification_rows(stream), arguments.count)
        try:
            write_live_rows(NOTIFICATION_COLUMNS, rows, arguments.json)
        except ClientError as error:
            offsets = " ".join(f"--after-offset {shard}={offset}" for shard, offset in stream.offsets.items())
            raise CommandError(f"{error} (what was printed ends at {offsets})") from error


def start_offsets(client: Client, given: list[tuple[int | None, int]]) -> dict[int, int]:
    """The offset to begin behind, of each shard that was given one; a later one overrules an earlier."""
    shard_ids = client.shard_ids() if given else ()
    offsets: dict[int, int] = {}
    for shard_id, offset in given:
        if shard_id is not None and shard_id not in shard_ids:
            raise UsageError(
                f"there is no shard {shard_id}: the namespace has {', '.join(map(str, shard_ids))}"
            )
        offsets.update(dict.fromkeys(shard_ids if shard_id is None else [shard_id], offset))
    return offsets


def notification_rows(stream: NotificationStream) -> Iterator[Row]:
    for batch in stream:
        for change in batch.notifications:
            yield {
                "shard": batch.shard_id,
                "offset": batch.offset,
                "timestamp": timestamp(batch.timestamp_ms),
                "type": change.kind.value,
                "key": change.key,
                "version_id": change.version_id,
                "key_range_end": change.range_end,
            }


def sequence_updates(client: Client, arguments: argparse.Namespace) -> None:
    with client.sequence_updates(arguments.key, partition_key=arguments.partition_key) as stream:
        for key in islice(stream, arguments.count):
            if arguments.json:
                write_rows(["key"], [{"key": key}], sys.stdout, as_json=True, live=True)
            else:
                print(cell_text(key), flush=True)


ACTIONS: dict[str, Action] = {
    "put": put,
    "get": get,
    "delete": delete,
    "delete-range": delete_range,
    "list": list_keys,
    "range-scan": range_scan,
    "notifications": notifications,
    "sequence-updates": sequence_updates,
    "session": session,
}
