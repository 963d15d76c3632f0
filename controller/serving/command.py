"""`tidemark broker`: a broker on the command line, and the admin service beside it."""

from __future__ import annotations

import argparse

from controller.broker.command import add_parser, flags_of


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = add_parser(commands)
    parser.add_argument(
        "--admin", metavar="HOST:PORT", help="where the admin service is: REST calls about topics (default: nowhere)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal asks to stop."""
    from controller.broker.serve import serve
    from controller.serving.beside import administered

    flags = flags_of(arguments) | {"admin": arguments.admin}
    return serve(arguments.config, flags, arguments.log_json, administered)
