"""`tidemark broker`: a broker on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

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
    "tls_cert_file",
    "tls_key_file",
    "tls_client_ca_file",
    "tokens_file",
    "insecure",
)


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "broker",
        help="serve segments and transactions",
        description="Serves segments and transactions, whose state is in a metadata store. Any number of brokers may "
        "share a store: each segment has one owner among them, and another one as soon as that ends.",
        epilog=EXAMPLES,
    )
    _add_place_options(parser)
    _add_security_options(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file with these settings")
    parser.add_argument("--log-json", action="store_true", help="log lines as JSON")
    parser.set_defaults(run=run)


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


def _add_security_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tls-cert-file", type=Path, metavar="FILE", help="serve TLS with this certificate (PEM)")
    parser.add_argument("--tls-key-file", type=Path, metavar="FILE", help="and this key (PEM)")
    parser.add_argument(
        "--tls-client-ca-file", type=Path, metavar="FILE", help="ask clients for a certificate signed by these (PEM)"
    )
    parser.add_argument(
        "--tokens-file", type=Path, metavar="FILE", help="let in only bearers of a token: a line PRINCIPAL TOKEN each"
    )
    parser.add_argument(
        "--insecure", action="store_true", default=None, help="serve a network without TLS and tokens all the same"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal asks to stop."""
    from controller.broker.serve import serve

    flags: dict[str, Any] = vars(arguments)
    return serve(arguments.config, {name: flags[name] for name in SETTINGS}, arguments.log_json)
