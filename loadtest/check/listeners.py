"""Who listens at an address of this machine, as the kernel tells it in /proc."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
LISTENING = "0A"


def is_here(host: str) -> bool:
    """Whether a host is this machine: then an address of it can be bound."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as bound:
                bound.bind(address)
        except OSError:
            continue  # only an address of this machine can be bound: this one is not
        return True
    return False


def listeners(port: int) -> list[int]:
    """The processes that listen at a port of this machine, as far as this user may know."""
    wanted = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in inodes(_table(table), port)}
    return [process for process in _processes() if wanted & set(_links(process))]


def inodes(table: str, port: int) -> list[str]:
    """The sockets that listen at a port, from the text of /proc/net/tcp."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        local, state, inode = fields[1], fields[3], fields[9]
        if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
            found.append(inode)
    return found


def _table(name: str) -> str:
    path = PROC / "net" / name
    return path.read_text() if path.exists() else ""


def _processes() -> list[int]:
    return [int(each.name) for each in PROC.iterdir() if each.name.isdigit()]


def _links(process: int) -> Iterator[str]:
    """What the files are that a process has open; nothing if it has gone, or is another user's."""
    try:
        for each in (PROC / str(process) / "fd").iterdir():
            try:
                yield os.readlink(each)
            except FileNotFoundError:
                continue  # closed since they were listed
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return
