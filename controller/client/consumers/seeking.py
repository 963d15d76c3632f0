"""Putting a topic's subscription elsewhere."""

from __future__ import annotations

from controller.client.errors import InvalidRequest
from controller.client.topics.admin import Topics
from controller.client.values import LATEST, Edge


async def seek(topics: Topics, topic: str, subscription: str, to: Edge | int) -> None:
    """To an end of the topic, or to a time in ms since the epoch."""
    if to is LATEST:
        await topics.skip_all(topic, subscription)
    elif isinstance(to, Edge):
        await topics.seek(topic, subscription, 0)
    elif isinstance(to, int):
        await topics.seek(topic, subscription, to)
    else:
        raise InvalidRequest(f"{to!r} is no place to seek: EARLIEST, LATEST, or ms since the epoch is expected")
