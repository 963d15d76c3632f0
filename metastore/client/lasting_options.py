"""The options of the operations that go on until they are interrupted."""

from __future__ import annotations

import argparse

from metastore.client import help as texts
from metastore.client.options import Commands, add_hex, add_partition_key, operation
from metastore.commandline import duration_s, positive


def add_watch(operations: Commands[argparse.ArgumentParser]) -> None:
    text = (
        "Prints the records that begin with PREFIX, then every change of them, until interrupted.\n"
        "In the hierarchical order a prefix means the keys of its own level: /jobs/ the children\n"
        "of /jobs. With --json the last line of each batch has a token to go on from."
    )
    parser = operation(operations, "watch", "follow the records of a range", text, texts.WATCH_EXAMPLES)
    parser.add_argument("prefix", metavar="PREFIX", nargs="?", default="", help="how the keys begin (all keys)")
    parser.add_argument("--index", metavar="NAME", help="PREFIX is of the secondary keys of this index")
    parser.add_argument("--exact", action="store_true", help="only the key, or secondary key, PREFIX itself")
    add_partition_key(parser)
    parser.add_argument("--from-token", metavar="TOKEN", help="go on behind an earlier watch, without a snapshot")
    parser.add_argument("--no-snapshot", action="store_true", help="begin with the changes from now on")
    parser.add_argument("--previous", action="store_true", help="print what each record was before, too")
    add_hex(parser)
    parser.add_argument("--count", type=positive, metavar="N", help="stop after so many changes")


def add_notifications(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Follows the changes of all shards from now on, until interrupted."
    parser = operation(operations, "notifications", "follow changes", text, texts.NOTIFICATIONS_EXAMPLES)
    parser.add_argument("--count", type=positive, metavar="N", help="stop after so many changes")


def add_sequence_updates(operations: Commands[argparse.ArgumentParser]) -> None:
    text = "Prints the greatest key of a sequence, and each new one, until interrupted."
    parser = operation(operations, "sequence-updates", "follow a sequence", text, texts.SEQUENCE_UPDATES_EXAMPLES)
    parser.add_argument("key", metavar="KEY", help="the prefix of the sequence's keys")
    add_partition_key(parser, required=True)
    parser.add_argument("--count", type=positive, metavar="N", help="stop after so many keys")


def add_session(operations: Commands[argparse.ArgumentParser]) -> None:
    text = (
        "Opens a session, stores ephemeral records in it, and keeps them alive until interrupted.\n"
        "Then the session is closed, and its records are gone."
    )
    parser = operation(operations, "session", "hold ephemeral records", text, texts.SESSION_EXAMPLES)
    parser.add_argument(
        "--put",
        dest="puts",
        nargs=2,
        action="append",
        default=[],
        metavar=("KEY", "VALUE"),
        help="store an ephemeral record; may be repeated",
    )
    add_partition_key(parser)
    _add_session_options(parser)
    parser.add_argument("--for", dest="hold_s", type=duration_s, metavar="TIME", help="end after this time")
    parser.add_argument("--abandon", action="store_true", help="do not close: leave the session to expire")


def add_elect(operations: Commands[argparse.ArgumentParser]) -> None:
    text = (
        "Waits to be elected to a role, says so, and leads until interrupted, or for as long as a\n"
        "command runs. The command finds the role's NAME in TIDEMARK_NAME and the term, which only\n"
        "grows, in TIDEMARK_TERM. If leadership is lost the command is ended."
    )
    parser = operation(operations, "elect", "lead a role", text, texts.ELECT_EXAMPLES)
    _add_holding_options(parser)
    parser.add_argument("name", metavar="NAME", help="the role: the key of the leader's record")
    parser.add_argument("value", metavar="VALUE", help="what the leader says of itself")
    _add_command(parser)


def add_lock(operations: Commands[argparse.ArgumentParser]) -> None:
    text = (
        "Waits for a lock, says so, and holds it until interrupted, or for as long as a command\n"
        "runs. The command finds the lock's NAME in TIDEMARK_NAME and the term, which only grows,\n"
        "in TIDEMARK_TERM. If the lock is lost the command is ended."
    )
    parser = operation(operations, "lock", "hold a lock", text, texts.LOCK_EXAMPLES)
    _add_holding_options(parser)
    parser.add_argument("name", metavar="NAME", help="the lock: the key of the holder's record")
    _add_command(parser)


def _add_holding_options(parser: argparse.ArgumentParser) -> None:
    add_partition_key(parser)
    _add_session_options(parser)
    parser.add_argument("--wait", dest="wait_s", type=duration_s, metavar="TIME", help="wait no longer than this")


def _add_session_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--session-timeout",
        type=duration_s,
        default=15.0,
        metavar="TIME",
        help="how long the session survives without a sign of life, from 2s to 5m (15s)",
    )
    parser.add_argument("--identity", default="", metavar="NAME", help="who holds the session")


def _add_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help="what to run meanwhile; behind two dashes, and behind all options",
    )
