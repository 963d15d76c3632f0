"""What a client lends to its consumers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controller.client.caller import Caller
from controller.client.topics.admin import Topics
from controller.client.topics.layouts import Layouts
from controller.client.topics.producer import Producer
from controller.client.transaction import Transaction
from controller.pb import broker_pb2 as pb


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Of one client."""

    caller: Caller
    limits: pb.Limits
    topics: Topics
    layouts: Layouts
    begin: Callable[[], Awaitable[Transaction]]
    """A transaction that its caller ends."""
    producer: Callable[[str], Awaitable[Producer]]
    """A producer of a topic, which is created if there is none."""
