"""The options of the operations on records."""

from __future__ import annotations

import argparse

from metastore.client import help as texts
from metastore.client.options import Commands, add_display, add_partition_key, operation
from metastore.client.values import index_entry, sequence_deltas

COMPARISONS = ("equal", "floor", "ceiling", "lower", "higher")
"""The contract's, by name; its module would take long to load for every start of the program."""


def _add_expected_version(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("-e", "--expected-version", type=int, metavar="ID", help=meaning)


def _add_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-s", "--key-min", default="", metavar="KEY", help="first key (the very first)")
    parser.add_argument("-e", "--key-max", default="", metavar="KEY", help="key to stop before (none)")
    add_partition_key(parser)
    parser.add_argument("--index", metavar="NAME", help="the range is one of this index's secondary keys")


def add_put(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Stores a record, in place of the one there may be, and prints its key and version."
    parser = operation(operations, "put", "store a record", text, texts.PUT_EXAMPLES)
    parser.add_argument("key", metavar="KEY", help="the record's key")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="what it shall hold")
    parser.add_argument("-c", "--std-in", action="store_true", help="read the value from standard input")
    _add_expected_version(parser, "the version id that the record must have; -1: it must not exist")
    add_partition_key(parser)
    parser.add_argument(
        "-d",
        "--sequence-keys-deltas",
        type=sequence_deltas,
        action="extend",
        default=[],
        metavar="N[,N...]",
        help="make KEY the prefix of a sequence: add these to the numbers of its greatest key (needs -p)",
    )
    parser.add_argument(
        "--index",
        dest="indexes",
        type=index_entry,
        action="append",
        default=[],
        metavar="NAME=SECONDARY",
        help="enter the record in an index under this secondary key; may be repeated",
    )


def add_get(operations: Commands[argparse.ArgumentParser]) -> None:
    text = (
        "Prints the value of a record: byte for byte, unless to a terminal: there it is\n"
        "followed by a line break, and what the terminal would obey is escaped."
    )
    parser = operation(operations, "get", "read a record", text, texts.GET_EXAMPLES)
    parser.add_argument("key", metavar="KEY", help="the record's key")
    add_display(parser)
    add_partition_key(parser)
    parser.add_argument("--index", metavar="NAME", help="KEY is a secondary key of this index")
    parser.add_argument(
        "-t",
        "--comparison-type",
        choices=COMPARISONS,
        default=COMPARISONS[0],
        help="the record at KEY, or the nearest: floor (<=), ceiling (>=), lower (<), higher (>)",
    )


def add_delete(operations: Commands[argparse.ArgumentParser]) -> None:
    parser = operation(operations, "delete", "delete a record", "Deletes a record.", texts.DELETE_EXAMPLES)
    parser.add_argument("key", metavar="KEY", help="the record's key")
    _add_expected_version(parser, "the version id that the record must have")
    add_partition_key(parser)


def add_delete_range(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Deletes all records of a range of keys; with several shards, on one after another."
    parser = operation(operations, "delete-range", "delete a range of records", text, texts.DELETE_RANGE_EXAMPLES)
    parser.add_argument("-s", "--key-min", required=True, metavar="KEY", help="first key")
    parser.add_argument("-e", "--key-max", required=True, metavar="KEY", help="key to stop before")
    add_partition_key(parser)


def add_list(operations: Commands[argparse.ArgumentParser]) -> None:
    text = (
        "Prints the keys of a range in the store's order, one a line. With --index they are\n"
        "ordered by their secondary keys; a plain Oxia tells them one shard after another."
    )
    parser = operation(operations, "list", "list keys", text, texts.LIST_EXAMPLES)
    _add_range(parser)


def add_range_scan(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Prints the records of a range of keys, ordered as by `list`."
    parser = operation(operations, "range-scan", "read a range of records", text, texts.RANGE_SCAN_EXAMPLES)
    _add_range(parser)
    add_display(parser)
