"""Opening a store for somebody who waits: word at once where nobody listens, and not when patience has run out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from metastore.interface.errors import Unavailable
from metastore.interface.store import MetadataStore
from metastore.interface.urls import StoreUrl, open_store

LOOK_WITHIN_S = 1.0
"""How long to look for somebody who listens. Who takes longer to answer may be there, and is left to the store."""


async def open_promptly(url: str) -> MetadataStore:
    """The store at a URL; Unavailable at once if every server that the URL names with its port is certainly none."""
    servers = StoreUrl.parse(url).servers
    opening = asyncio.ensure_future(open_store(url))
    looking = asyncio.ensure_future(_why_nobody_listens(servers))
    try:
        await asyncio.wait({opening, looking}, return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            reason = looking.result()
            if reason is not None:
                raise Unavailable(f"{reason}: check the address, and that the server runs")
        return await opening
    finally:
        opening.cancel()
        looking.cancel()
        await asyncio.wait({opening, looking})


async def _why_nobody_listens(servers: Iterable[tuple[str, int | None]]) -> str | None:
    """Why a store has nobody to talk to; None where it may have."""
    reasons = []
    for host, port in servers:
        reason = await asyncio.to_thread(_why_not, host, port) if port else None
        if reason is None:
            return None
        reasons.append(reason)
    return "; ".join(reasons)


def _why_not(host: str, port: int) -> str | None:
    """Why nobody is there, if that is certain."""
    try:
        socket.create_connection((host, port), LOOK_WITHIN_S).close()
    except ConnectionRefusedError as error:
        return f"nobody listens at {host}:{port} ({error.strerror})"
    except socket.gaierror as error:
        return f"nobody knows the host {host!r} ({error.strerror})" if error.errno == socket.EAI_NONAME else None
    except (OSError, UnicodeError):
        return None
    return None
