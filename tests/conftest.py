"""What holds for all tests: hypothesis draws the same every time, nobody is deaf to signals, forks are safe."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# PySpark forks this process to start Java. With gRPC's handlers, which are there for children that go on using it, such
# a child could die before it became Java, if a thread was just within gRPC. They are chosen when gRPC is loaded.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# Whatever else the machine does, a test says the same. The runs of `make test-long` have seeds of their own.
settings.register_profile("tidemark", deadline=None, derandomize=True, database=None)
settings.load_profile("tidemark")


def pytest_configure() -> None:
    """A shell starts what runs in the background deaf to SIGINT, and whatever that starts would be so as well."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
