"""The options that several operations have."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from metastore.client.connection import DEFAULT_ADDRESS, DEFAULT_NAMESPACE, DEFAULT_TIMEOUT_S
from metastore.commandline import duration_s

Commands = argparse._SubParsersAction  # what `add_subparsers` returns; argparse has no public name for it

KEY_SORTINGS = ("hierarchical", "natural")


def run(arguments: argparse.Namespace) -> int | None:
    """Runs the operation of a parsed command line; returns its exit code, None meaning 0."""
    # Failures are told in this program's words; gRPC would print its own in between.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from metastore.client.running import perform  # loads what no other command should wait for

    return perform(arguments)


def operation(
    operations: Commands[argparse.ArgumentParser], name: str, summary: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """One operation. It takes the connection's options too, so they may stand before or behind its name."""
    parser = operations.add_parser(name, help=summary, description=description, epilog=examples)
    add_connection(parser, repeated=True)
    parser.set_defaults(run=run, operation=name)
    return parser


def add_connection(parser: argparse.ArgumentParser, repeated: bool = False) -> None:
    """How to connect and print. Where `repeated`, an option left out overrules nothing given before."""
    group = parser.add_argument_group("connection and output")

    def add(*names: str, default: object = None, **options: Any) -> None:
        group.add_argument(*names, default=argparse.SUPPRESS if repeated else default, **options)

    add("--store", metavar="URL", help="the store, of any kind: oxia://, lmdb://, zk://, memory://, ...")
    add("-a", "--address", metavar="HOST:PORT", help=f"a server, where there is no --store ({DEFAULT_ADDRESS})")
    add("-n", "--namespace", metavar="NAME", help=f"the server's namespace ({DEFAULT_NAMESPACE})")
    add(
        "--key-sorting",
        choices=KEY_SORTINGS,
        help="how a plain Oxia sorts the namespace's keys; ours tells (hierarchical)",
    )
    add(
        "--timeout",
        type=duration_s,
        metavar="TIME",
        help=f"how long to wait for the server and each of its answers: 500ms, 2m ({DEFAULT_TIMEOUT_S:g}s)",
    )
    add("--auth-token", metavar="TOKEN", help="bearer token; the list of processes shows it to others")
    add("--auth-token-file", type=Path, metavar="FILE", help="file that holds the bearer token")
    add("--tls", default=False, action="store_true", help="encrypt, and check the server's certificate")
    add("--ca-file", type=Path, metavar="FILE", help="what to check it with (PEM); implies --tls")
    add("--cert-file", type=Path, metavar="FILE", help="this client's certificate (PEM); implies --tls")
    add("--key-file", type=Path, metavar="FILE", help="this client's private key (PEM)")
    add("--json", default=False, action="store_true", help="print one JSON object per line")


def add_partition_key(parser: argparse.ArgumentParser, required: bool = False) -> None:
    parser.add_argument(
        "-p", "--partition-key", required=required, metavar="KEY", help="choose the shard by this key instead"
    )


def add_hex(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hex", action="store_true", help="print values in hexadecimal")


def add_display(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-v", "--include-version", action="store_true", help="print the version too")
    add_hex(parser)
