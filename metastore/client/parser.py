"""`tidemark client`: its operations. What one does is in records, following and holding."""

from __future__ import annotations

import argparse

from metastore.client import help as texts
from metastore.client import lasting_options, record_options
from metastore.client.options import Commands, add_connection


def register(commands: Commands[argparse.ArgumentParser]) -> None:
    """Adds `client` to the commands of `tidemark`."""
    parser = commands.add_parser(
        "client", help="read and write records, follow changes", description=texts.DESCRIPTION, epilog=texts.EXAMPLES
    )
    add_connection(parser)
    operations = parser.add_subparsers(title="operations", metavar="OPERATION", required=True)
    record_options.add_put(operations)
    record_options.add_get(operations)
    record_options.add_delete(operations)
    record_options.add_delete_range(operations)
    record_options.add_list(operations)
    record_options.add_range_scan(operations)
    lasting_options.add_watch(operations)
    lasting_options.add_notifications(operations)
    lasting_options.add_sequence_updates(operations)
    lasting_options.add_session(operations)
    lasting_options.add_elect(operations)
    lasting_options.add_lock(operations)
