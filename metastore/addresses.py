"""Addresses of services: HOST:PORT, an IPv6 host in brackets."""

from __future__ import annotations

import ipaddress
import re

PORT_MAX = 65535
EVERY_ADDRESS = ("0.0.0.0", "::")
"""Hosts that stand for all addresses of a machine; nobody else can dial them."""

_PORT = re.compile(r"[0-9]{1,5}")


def split_address(address: str) -> tuple[str, int]:
    """Host and port; ValueError if it is no address."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not _PORT.fullmatch(port) or int(port) > PORT_MAX:
        raise ValueError(f"HOST:PORT is expected, got {address!r}")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """What `split_address` takes apart."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
