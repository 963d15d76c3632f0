"""`tidemark standalone`: everything on the command line."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from controller.broker.command import add_peer_options, add_topic_options
from controller.broker.topics.config import TopicsConfig
from metastore.commandline import SECURITY_SETTINGS, add_security_options

if TYPE_CHECKING:
    from controller.standalone.config import StandaloneConfig

EXAMPLES = """\
examples:
  tidemark standalone
      brokers' clients on 127.0.0.1:6650, REST calls on 127.0.0.1:8088, Oxia clients on 127.0.0.1:6648, data in ./data
  tidemark standalone --data-dir /var/lib/tidemark --shards 4
      the metadata in four shards
  tidemark standalone --listen 127.0.0.1:0 --admin 127.0.0.1:0 --metadata 127.0.0.1:0 \\
      --metrics-port 0 --metadata-metrics-port 0
      on ports that are free; the line that says `ready` names them
  tidemark standalone --listen 0.0.0.0:6650 --advertise broker.example:6650 \\
      --tls-cert-file cert.pem --tls-key-file key.pem --tokens-file tokens.txt --peer-token-file own-token.txt
      serve the network, to clients with a token
"""

BROKER_SETTINGS = (
    *("listen", "advertise", "admin", "metrics_port", "log", "session_timeout_ms"),
    *SECURITY_SETTINGS,
    *("peer_tls", "peer_tls_ca_file", "peer_token_file"),
)
OWN_SETTINGS = ("data_dir", "metadata", "metadata_metrics_port", "shards")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "standalone",
        help="serve everything: metadata, segments, topics, their administration",
        description="Serves topics, segments, transactions and their metadata on this machine: a metadata service, "
        "a broker and the admin service in one command, with all data under one directory.",
        epilog=EXAMPLES,
    )
    _add_places(parser)
    _add_broker_options(parser)
    add_security_options(parser)
    add_peer_options(parser)
    add_topic_options(parser)
    parser.add_argument("--log-json", action="store_true", help="log lines as JSON")
    parser.set_defaults(run=run)


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where everything is kept (default ./data)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where clients come (default 127.0.0.1:6650)")
    parser.add_argument(
        "--admin", metavar="HOST:PORT", help="where REST calls about topics come (default 127.0.0.1:8088)"
    )
    parser.add_argument(
        "--metadata", metavar="HOST:PORT", help="where the metadata is, for Oxia clients (default 127.0.0.1:6648)"
    )
    parser.add_argument(
        "--advertise", metavar="HOST:PORT", help="where clients are sent to find the broker (default: as it listens)"
    )
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="where the broker's /metrics is (default 8090)"
    )
    parser.add_argument(
        "--metadata-metrics-port", type=int, metavar="PORT", help="where the metadata's /metrics is (default 8080)"
    )


def _add_broker_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shards", type=int, metavar="N", help="shards of the metadata (default 1)")
    parser.add_argument(
        "--log",
        choices=("local", "metastore"),
        help="where new segments have their entries: in files (default), or in the metadata, for other brokers too",
    )
    parser.add_argument(
        "--session-timeout-ms",
        type=int,
        metavar="MS",
        help="how long the broker may be silent before another one on the same metadata takes over (default 10000)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal asks to stop."""
    from controller.standalone.serve import serve

    return serve(lambda: config_of(arguments), arguments.log_json)


def config_of(arguments: argparse.Namespace) -> StandaloneConfig:
    """What the flags say, checked."""
    from controller.broker.config import load_config
    from controller.standalone.config import StandaloneConfig, default_broker

    names = (*BROKER_SETTINGS, *(each.name for each in fields(TopicsConfig)))
    flags = {name: getattr(arguments, name) for name in names}
    broker = load_config(None, flags, start=default_broker(), has_store=True)
    own = {name: getattr(arguments, name) for name in OWN_SETTINGS}
    given = {name: value for name, value in own.items() if value is not None}
    return StandaloneConfig(**given, broker=broker).check()
