"""The program of a worker process: reads its orders, serves, and ends with its parent."""

from __future__ import annotations

import os
import signal
import sys
import threading

from metastore.faults import faults_from_environment
from metastore.logs import set_up_logging
from metastore.server.process import START_ERRORS, ServerProcess
from metastore.server.signals import ask_to_stop, block_stop_signals, wait_for_stop
from metastore.server.workers import READY, decode_orders


def main() -> int:
    """Serves until the parent ends, or asks."""
    config, plan, log_json = decode_orders(sys.stdin.readline())
    set_up_logging(log_json)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent decides
    block_stop_signals()
    threading.Thread(target=_await_orphanage, daemon=True).start()
    server = ServerProcess(config, plan, faults_from_environment(os.environ))
    try:
        server.start()
    except START_ERRORS as error:
        print(" ".join(str(error).split()), flush=True)
        return 1
    print(READY, flush=True)
    wait_for_stop()
    server.stop()
    return 0


def _await_orphanage() -> None:
    """The standard input stays open for as long as the parent lives."""
    sys.stdin.read()
    ask_to_stop()


if __name__ == "__main__":
    sys.exit(main())
