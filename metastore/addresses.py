"""Addresses of services: HOST:PORT, an IPv6 host in brackets; and URLs that name several."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

PORT_MAX = 65535
EVERY_ADDRESS = ("0.0.0.0", "::")
"""Hosts that stand for all addresses of a machine; nobody else can dial them."""

_PORT = re.compile(r"[0-9]{1,5}")
_SERVERS = re.compile(r"[^:/?#]*://([^/?#]*)")


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


def split_url(url: str) -> list[SplitResult]:
    """A URL `scheme://host:port,host:port/…` as it would be with each of its servers alone; ValueError if it is none.

    As a whole it is none for newer versions of `urlsplit`, where a host is in brackets.
    """
    found = _SERVERS.match(url)
    if found is None:
        return [urlsplit(url)]
    return [urlsplit(url[: found.start(1)] + server + url[found.end(1) :]) for server in found[1].split(",")]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
