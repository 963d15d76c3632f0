"""The program of a worker process: reads its orders, serves, and ends with its parent."""

from __future__ import annotations

import os
import signal
import sys
import threading

from metastore.faults import faults_from_environment
from metastore.server.logs import set_up_logging
from metastore.server.process import ServerProcess
from metastore.server.workers import READY, decode_orders


def main() -> int:
    """Serves until the parent ends, or asks."""
    set_up_logging(as_json=False)
    config, plan = decode_orders(sys.stdin.readline())
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_await_orphanage, args=(stop,), daemon=True).start()
    server = ServerProcess(config, plan, faults_from_environment(os.environ))
    server.start()
    print(READY, flush=True)
    stop.wait()
    server.stop()
    return 0


def _await_orphanage(stop: threading.Event) -> None:
    """The standard input stays open for as long as the parent lives."""
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
