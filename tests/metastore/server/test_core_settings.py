"""The core's settings are in place before grpc is imported for the first time."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys
class Witness:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc._cython.cygrpc":
            print(os.environ.get("GRPC_EXPERIMENTS"))
        return None
sys.meta_path.insert(0, Witness())
os.environ.pop("GRPC_EXPERIMENTS", None)
import metastore.server.serve
"""


def test_the_poller_reads_sockets_itself() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["-event_engine_listener"]
