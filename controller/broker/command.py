"""`tidemark broker`: a broker on the command line."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from controller.broker.topics.config import STRATEGIES, TopicsConfig, shown
from metastore.commandline import SECURITY_SETTINGS, add_security_options

EXAMPLES = """\
examples:
  tidemark broker --store oxia://127.0.0.1:6648
      serve on 127.0.0.1:6650, the entries of segments in ./data-broker
  tidemark broker --store oxia://127.0.0.1:6648 --log metastore --listen 127.0.0.1:6651 --metrics-port 8091
      a second one; the segments that it creates can be taken over by any other
  tidemark broker --store lmdb:///var/lib/tidemark/store --data-dir /var/lib/tidemark/segments
      one process that needs no other
  tidemark broker --store oxia://store:6648 --listen 0.0.0.0:6650 --advertise broker-1.example:6650 \\
      --tls-cert-file cert.pem --tls-key-file key.pem --tokens-file tokens.txt
      serve the network, to clients with a token
"""

SETTINGS = (
    "store",
    "listen",
    "advertise",
    "name",
    "log",
    "data_dir",
    "metrics_port",
    "session_timeout_ms",
    *SECURITY_SETTINGS,
    "peer_tls",
    "peer_tls_ca_file",
    "peer_token_file",
)


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command, for a broker with nothing beside it."""
    add_parser(commands).set_defaults(run=run)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Adds the command; what it runs is for the caller to say."""
    parser = commands.add_parser(
        "broker",
        help="serve segments and transactions",
        description="Serves segments and transactions, whose state is in a metadata store. Any number of brokers may "
        "share a store: each segment has one owner among them, and another one as soon as that ends.",
        epilog=EXAMPLES,
    )
    _add_place_options(parser)
    add_security_options(parser)
    add_peer_options(parser)
    add_topic_options(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file with these settings")
    parser.add_argument("--log-json", action="store_true", help="log lines as JSON")
    return parser


def _add_place_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", metavar="URL", help="the metadata store: oxia://, lmdb://, zk://, memory://, ...")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where clients come (default 127.0.0.1:6650)")
    parser.add_argument(
        "--advertise", metavar="HOST:PORT", help="where clients are sent to find this broker (default: as it listens)"
    )
    parser.add_argument("--name", metavar="NAME", help="what other brokers know it by (default: its address)")
    parser.add_argument(
        "--log",
        choices=("local", "metastore"),
        help="where new segments have their entries: on this machine (default), or in the store, for any broker to "
        "take over",
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where local logs are (default ./data-broker)")
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="where /metrics is, on the same host (default 8090)"
    )
    parser.add_argument(
        "--session-timeout-ms",
        type=int,
        metavar="MS",
        help="how long it may be silent before others take its segments over (default 10000)",
    )


def add_peer_options(parser: argparse.ArgumentParser) -> None:
    """How other brokers are called."""
    parser.add_argument(
        "--peer-tls", action="store_true", default=None, help="call the other brokers by TLS (default: if it serves it)"
    )
    parser.add_argument(
        "--peer-tls-ca-file", type=Path, metavar="FILE", help="whose certificates the other brokers have (PEM)"
    )
    parser.add_argument(
        "--peer-token-file", type=Path, metavar="FILE", help="a file with the token to call the other brokers with"
    )


def add_topic_options(parser: argparse.ArgumentParser) -> None:
    """One for each setting of topics; docs/tuning.md says what they do."""
    group = parser.add_argument_group("scalable topics", "what holds where neither topic nor namespace say otherwise")
    for each in fields(TopicsConfig):
        flag = f"--{shown(each.name)}"
        if each.type == "bool":
            group.add_argument(
                flag, action=argparse.BooleanOptionalAction, default=None, help=f"(default: {each.default})"
            )
        elif each.type == "str":
            group.add_argument(flag, choices=STRATEGIES, help=f"(default {each.default})")
        else:
            kind, metavar = (int, "N") if each.type == "int" else (float, "S" if each.name.endswith("_s") else "X")
            group.add_argument(flag, type=kind, metavar=metavar, help=f"(default {each.default:.15g})")


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal asks to stop."""
    from controller.broker.serve import serve

    return serve(arguments.config, flags_of(arguments), arguments.log_json)


def flags_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given as flags; None for each that was not."""
    names = (*SETTINGS, *(each.name for each in fields(TopicsConfig)))
    return {name: getattr(arguments, name) for name in names}
