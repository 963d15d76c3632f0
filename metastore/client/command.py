"""`tidemark client`: its operations, options and help. What an operation does is in command_actions."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from metastore.client.command_values import duration_s, index_entry, positive, sequence_deltas, start_offset
from metastore.client.values import Comparison

Commands = argparse._SubParsersAction  # what `add_subparsers` returns; argparse has no public name for it

DESCRIPTION = """\
Reads and writes the records of a metadata store that speaks Oxia's protocol: ours, or a real Oxia.

The output is made for people; with --json it is one JSON object per line, for programs, and a value
that is not UTF-8 is {"base64": "..."} there. The exit code is 0 if it was done, 1 if it failed (no such
key, another version, no server), 2 if the call made no sense.
"""

EXAMPLES = """\
examples:
  tidemark client put /greeting hello
  tidemark client get /greeting
  tidemark client list --key-min /jobs/ --key-max /jobs//  # the children of /jobs
  tidemark client --address db1:6648 --tls --ca-file ca.pem --auth-token-file token list
"""

PUT_EXAMPLES = """\
examples:
  tidemark client put /config '{"retries": 3}'
  tidemark client put /config --std-in < config.json
  tidemark client put /config new -e 7                # only if its version id is 7
  tidemark client put /lock mine -e -1                # only if there is no such record
  tidemark client put /job work -p jobs -d 1          # makes /job-00000000000000000001, ...2, ...
  tidemark client put /user/7 Ann --index email=ann@example.org --index town=Ghent
"""

GET_EXAMPLES = """\
examples:
  tidemark client get /config > config.json           # the value, byte for byte
  tidemark client get /config -v                      # and its version
  tidemark client get /log-5 -t floor                 # the record at or before /log-5
  tidemark client get ann@example.org --index email   # by secondary key
"""

DELETE_EXAMPLES = """\
examples:
  tidemark client delete /config
  tidemark client delete /config -e 7                 # only if its version id is 7
"""

DELETE_RANGE_EXAMPLES = """\
examples:
  tidemark client delete-range -s /jobs/ -e /jobs//   # the children of /jobs
"""

LIST_EXAMPLES = """\
examples:
  tidemark client list
  tidemark client list -s /jobs/ -e /jobs//           # the children of /jobs
  tidemark client list --index town -s Gent -e Genu   # records whose town begins with Gent
"""

RANGE_SCAN_EXAMPLES = """\
examples:
  tidemark client range-scan -s /jobs/ -e /jobs//     # the children of /jobs and their values
  tidemark client range-scan -v --json > backup.jsonl
"""

NOTIFICATIONS_EXAMPLES = """\
examples:
  tidemark client notifications                       # what changes from now on
  tidemark client notifications --after-offset -1     # all that is kept, and what changes then
  tidemark client notifications --after-offset 0=120 --after-offset 1=98 --count 10
"""

SEQUENCE_UPDATES_EXAMPLES = """\
examples:
  tidemark client sequence-updates /job -p jobs
"""

SESSION_EXAMPLES = """\
examples:
  tidemark client session --put /live/broker-1 10.0.0.1:6650
  tidemark client session --put /live/me "" --session-timeout 5s --for 1m
  tidemark client session --put /live/me "" --for 1s --abandon  # as if the client had crashed
"""


def register(commands: Commands[argparse.ArgumentParser]) -> None:
    """Adds `client` to the commands of `tidemark`."""
    parser = commands.add_parser(
        "client", help="read and write records, follow changes", description=DESCRIPTION, epilog=EXAMPLES
    )
    _add_connection(parser)
    operations = parser.add_subparsers(title="operations", metavar="OPERATION", required=True)
    _add_put(operations)
    _add_get(operations)
    _add_delete(operations)
    _add_delete_range(operations)
    _add_list(operations)
    _add_range_scan(operations)
    _add_notifications(operations)
    _add_sequence_updates(operations)
    _add_session(operations)


def run(arguments: argparse.Namespace) -> None:
    """Runs the operation of a parsed command line."""
    # Failures are told in this program's words; gRPC would print its own in between.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from metastore.client import command_actions  # loads gRPC, which no other command should wait for

    command_actions.perform(arguments)


def _operation(
    operations: Commands[argparse.ArgumentParser], name: str, summary: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """One operation. It takes the connection's options too, so they may stand before or behind its name."""
    parser = operations.add_parser(name, help=summary, description=description, epilog=examples)
    _add_connection(parser, repeated=True)
    parser.set_defaults(run=run, operation=name)
    return parser


def _add_connection(parser: argparse.ArgumentParser, repeated: bool = False) -> None:
    """How to connect and print. Where `repeated`, an option left out overrules nothing given before."""
    group = parser.add_argument_group("connection and output")

    def add(*names: str, default: object = None, **options: Any) -> None:
        group.add_argument(*names, default=argparse.SUPPRESS if repeated else default, **options)

    add("-a", "--address", default="localhost:6648", metavar="HOST:PORT", help="the server (localhost:6648)")
    add("-n", "--namespace", default="default", metavar="NAME", help="the namespace (default)")
    add(
        "--key-sorting",
        default="hierarchical",
        choices=["hierarchical", "natural"],
        help="how the namespace sorts its keys, to put the answers of several shards in order (hierarchical)",
    )
    add(
        "--request-timeout",
        default=30.0,
        type=duration_s,
        metavar="TIME",
        help="how long to wait for an answer, such as 500ms, 10s, 2m (30s)",
    )
    add("--auth-token", metavar="TOKEN", help="bearer token; the list of processes shows it to others")
    add("--auth-token-file", type=Path, metavar="FILE", help="file that holds the bearer token")
    add("--tls", default=False, action="store_true", help="encrypt, and check the server's certificate")
    add("--ca-file", type=Path, metavar="FILE", help="what to check it with (PEM); implies --tls")
    add("--cert-file", type=Path, metavar="FILE", help="this client's certificate (PEM); implies --tls")
    add("--key-file", type=Path, metavar="FILE", help="this client's private key (PEM)")
    add("--json", default=False, action="store_true", help="print one JSON object per line")


def _add_partition_key(parser: argparse.ArgumentParser, required: bool = False) -> None:
    parser.add_argument(
        "-p", "--partition-key", required=required, metavar="KEY", help="choose the shard by this key instead"
    )


def _add_expected_version(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("-e", "--expected-version", type=int, metavar="ID", help=meaning)


def _add_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-s", "--key-min", default="", metavar="KEY", help="first key (the very first)")
    parser.add_argument("-e", "--key-max", default="", metavar="KEY", help="key to stop before (none)")
    _add_partition_key(parser)
    parser.add_argument("--index", metavar="NAME", help="the range is one of this index's secondary keys")
    parser.add_argument("--internal-keys", action="store_true", help="show the server's own keys too")


def _add_display(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-v", "--include-version", action="store_true", help="print the version too")
    parser.add_argument("--hex", action="store_true", help="print values in hexadecimal")


def _add_put(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Stores a record, in place of the one there may be, and prints its key and version."
    parser = _operation(operations, "put", "store a record", text, PUT_EXAMPLES)
    parser.add_argument("key", metavar="KEY", help="the record's key")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="what it shall hold")
    parser.add_argument("-c", "--std-in", action="store_true", help="read the value from standard input")
    _add_expected_version(parser, "the version id that the record must have; -1: it must not exist")
    _add_partition_key(parser)
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


def _add_get(operations: Commands[argparse.ArgumentParser]) -> None:
    text = (
        "Prints the value of a record: byte for byte, unless to a terminal: there it is\n"
        "followed by a line break, and what the terminal would obey is escaped."
    )
    parser = _operation(operations, "get", "read a record", text, GET_EXAMPLES)
    parser.add_argument("key", metavar="KEY", help="the record's key")
    _add_display(parser)
    _add_partition_key(parser)
    parser.add_argument("--index", metavar="NAME", help="KEY is a secondary key of this index")
    parser.add_argument(
        "-t",
        "--comparison-type",
        choices=[comparison.value for comparison in Comparison],
        default=Comparison.EQUAL.value,
        help="the record at KEY, or the nearest: floor (<=), ceiling (>=), lower (<), higher (>)",
    )


def _add_delete(operations: Commands[argparse.ArgumentParser]) -> None:
    parser = _operation(operations, "delete", "delete a record", "Deletes a record.", DELETE_EXAMPLES)
    parser.add_argument("key", metavar="KEY", help="the record's key")
    _add_expected_version(parser, "the version id that the record must have")
    _add_partition_key(parser)


def _add_delete_range(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Deletes all records of a range of keys; with several shards, on one after another."
    parser = _operation(operations, "delete-range", "delete a range of records", text, DELETE_RANGE_EXAMPLES)
    parser.add_argument("-s", "--key-min", required=True, metavar="KEY", help="first key")
    parser.add_argument("-e", "--key-max", required=True, metavar="KEY", help="key to stop before")
    _add_partition_key(parser)


def _add_list(operations: Commands[argparse.ArgumentParser]) -> None:
    text = (
        "Prints the keys of a range in the server's order, one a line. With --index they are\n"
        "ordered by their secondary keys, one shard after another, and --key-max is needed."
    )
    parser = _operation(operations, "list", "list keys", text, LIST_EXAMPLES)
    _add_range(parser)


def _add_range_scan(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Prints the records of a range of keys, ordered as by `list`."
    parser = _operation(operations, "range-scan", "read a range of records", text, RANGE_SCAN_EXAMPLES)
    _add_range(parser)
    _add_display(parser)


def _add_notifications(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Follows the changes of all shards until interrupted."
    parser = _operation(operations, "notifications", "follow changes", text, NOTIFICATIONS_EXAMPLES)
    parser.add_argument(
        "--after-offset",
        dest="offsets",
        type=start_offset,
        action="append",
        default=[],
        metavar="[SHARD=]OFFSET",
        help="begin behind this offset, of one shard or all; -1: with all that is kept; may be repeated",
    )
    parser.add_argument("--count", type=positive, metavar="N", help="stop after so many changes")


def _add_sequence_updates(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Prints the greatest key of a sequence, and each new one, until interrupted."
    parser = _operation(operations, "sequence-updates", "follow a sequence", text, SEQUENCE_UPDATES_EXAMPLES)
    parser.add_argument("key", metavar="KEY", help="the prefix of the sequence's keys")
    _add_partition_key(parser, required=True)
    parser.add_argument("--count", type=positive, metavar="N", help="stop after so many keys")


def _add_session(operations: Commands[argparse.ArgumentParser]) -> None:
    text = (
        "Opens a session, stores ephemeral records in it, and keeps them alive until interrupted.\n"
        "Then the session is closed, and its records are gone. Without --put it is opened on\n"
        "every shard."
    )
    parser = _operation(operations, "session", "hold ephemeral records", text, SESSION_EXAMPLES)
    parser.add_argument(
        "--put",
        dest="puts",
        nargs=2,
        action="append",
        default=[],
        metavar=("KEY", "VALUE"),
        help="store an ephemeral record; may be repeated",
    )
    _add_partition_key(parser)
    parser.add_argument(
        "--session-timeout",
        type=duration_s,
        default=15.0,
        metavar="TIME",
        help="how long the session survives without a sign of life, from 2s to 5m (15s)",
    )
    parser.add_argument("--identity", default="", metavar="NAME", help="who holds the session")
    parser.add_argument("--for", dest="hold_s", type=duration_s, metavar="TIME", help="end after this time")
    parser.add_argument("--abandon", action="store_true", help="do not close: leave the session to expire")
