"""A real Oxia as a server under test."""

from __future__ import annotations

import os
import shlex

import pytest

from support.server import COMMAND_VARIABLE, ServerProcess, Sorting

BINARY_VARIABLE = "OXIA_BIN"
ARGUMENTS = (
    "standalone --public-addr 127.0.0.1:{port} --metrics-addr 127.0.0.1:{metrics} --data-dir {dir}/db"
    " --wal-dir {dir}/wal --shards {shards} --key-sorting {sorting} --notifications-enabled {notifications}"
)


def oxia_server(shards: int, sorting: Sorting) -> ServerProcess:
    """Skips the test where there is no Oxia."""
    binary = os.environ.get(BINARY_VARIABLE)
    if not binary:
        pytest.skip(f"{BINARY_VARIABLE} does not name an Oxia binary")
    command = f"{shlex.quote(os.path.abspath(binary))} {ARGUMENTS}"
    return ServerProcess(shards, sorting, environment={COMMAND_VARIABLE: command})
