"""`tidemark metastore`: the service on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from metastore.commandline import SECURITY_SETTINGS, add_security_options

EXAMPLES = """\
examples:
  tidemark metastore --data-dir ./data
      serve on 127.0.0.1:6648, one shard, everything in one process
  tidemark metastore --shards 4 --workers 4 --data-dir /var/lib/tidemark
      four processes, on ports 6648 to 6651
  tidemark metastore --public-addr 0.0.0.0:6648 --tls-cert-file cert.pem --tls-key-file key.pem \\
      --tokens-file tokens.txt
      serve the network, to clients with a token
"""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "metastore",
        help="serve metadata to Oxia clients",
        description="Serves metadata to Oxia clients, from a data directory on this machine.",
        epilog=EXAMPLES,
    )
    _add_network_options(parser)
    _add_data_options(parser)
    add_security_options(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file: these settings, [[namespaces]]")
    parser.add_argument("--log-json", action="store_true", help="log lines as JSON")
    parser.add_argument(
        "--until-stdin-ends",
        action="store_true",
        help="for supervisors: end when the standard input ends; print `ready ADDRESS METRICS-ADDRESS`, or why not",
    )
    parser.set_defaults(run=run)


def _add_network_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--public-addr", metavar="HOST:PORT", help="where clients come (default 127.0.0.1:6648)")
    parser.add_argument("--metrics-addr", metavar="HOST:PORT", help="where /metrics is (default 127.0.0.1:8080)")
    parser.add_argument(
        "--advertise", metavar="HOST", help="the host by which clients find the shards (default: as they came)"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes that share the shards (default 1)")


def _add_data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where the data is kept (default ./data)")
    parser.add_argument("--shards", type=int, metavar="N", help="shards of the default namespace (default 1)")
    parser.add_argument(
        "--key-sorting", choices=("hierarchical", "natural"), help="the order of keys (default hierarchical)"
    )
    parser.add_argument(
        "--notifications-enabled", type=_boolean, metavar="true|false", help="serve notifications (default true)"
    )
    parser.add_argument(
        "--notifications-retention-time", metavar="TIME", help="how long changes are kept, e.g. 30m (default 1h)"
    )
    parser.add_argument(
        "--sync-data",
        type=_boolean,
        metavar="true|false",
        help="fsync before answering (default true); false survives a kill, not a power cut",
    )
    parser.add_argument(
        "--quota", metavar="SIZE", help="what a shard's records may take, e.g. 10GiB (default: no limit)"
    )


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"true or false is expected, got {text!r}")
    return text == "true"


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal asks to stop."""
    from metastore.server.serve import serve, serve_supervised

    flags: dict[str, Any] = vars(arguments)
    settings = {name: flags[name] for name in SETTINGS}
    serving = serve_supervised if arguments.until_stdin_ends else serve
    return serving(arguments.config, settings, arguments.log_json)


SETTINGS = (
    "public_addr",
    "metrics_addr",
    "advertise",
    "workers",
    "data_dir",
    "shards",
    "key_sorting",
    "notifications_enabled",
    "notifications_retention_time",
    "sync_data",
    "quota",
    *SECURITY_SETTINGS,
)
