"""A real ZooKeeper for tests, what it holds, and processes that use it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient
from zookeeper_audit import audit

from metastore.faults import ENVIRONMENT_VARIABLE
from metastore.providers.zookeeper.layout import Layout
from support.server import PROJECT_ROOT
from support.zookeeper import ZookeeperProcess

WRITER = Path(__file__).with_name("zookeeper_writer.py")


@contextmanager
def bare_client(server: ZookeeperProcess) -> Iterator[KazooClient]:
    """ZooKeeper without a store on it."""
    client = KazooClient(server.address)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def keys_at(server: ZookeeperProcess, path: str) -> list[str]:
    """The keys of all records, after everything that is there has been compared with everything else."""
    nodes: dict[str, bytes] = {}
    with bare_client(server) as client:
        waiting = [f"/{path}"]
        while waiting:
            node = waiting.pop()
            nodes[node], _ = client.get(node)
            waiting += [f"{node}/{name}" for name in client.get_children(node)]
    return sorted(stored.identity.key for stored in audit(nodes, Layout(f"/{path}")))


@contextmanager
def writer_process(url: str, fault: str = "") -> Iterator[subprocess.Popen[str]]:
    """The writer, when its session is open."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT), ENVIRONMENT_VARIABLE: fault}
    process = subprocess.Popen(
        [sys.executable, str(WRITER), url], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()
