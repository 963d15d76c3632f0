"""The program of a worker process: reads its orders, serves, and ends with its parent."""

from __future__ import annotations

import os
import sys

from metastore.faults import faults_from_environment
from metastore.logs import set_up_logging
from metastore.server.process import START_ERRORS, ServerProcess
from metastore.server.signals import wait_for_stop
from metastore.server.supervised import live_with_keeper, say_failed, say_ready
from metastore.server.workers import decode_orders


def main() -> int:
    """Serves until the parent ends, or asks."""
    config, plan, log_json = decode_orders(sys.stdin.readline())
    set_up_logging(log_json)
    live_with_keeper()
    server = ServerProcess(config, plan, faults_from_environment(os.environ))
    try:
        server.start()
    except START_ERRORS as error:
        say_failed(error)
        return 1
    say_ready()
    wait_for_stop()
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
