"""How a topic's producer sends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.client.compression import Compression
from controller.client.errors import InvalidRequest
from controller.client.segment.producer import BATCH_MESSAGES_LIMIT, LINGER_MS_MAX


class Access(Enum):
    """Who else may produce to the topic."""

    SHARED = "shared"
    """Everybody."""
    EXCLUSIVE = "exclusive"
    """Nobody; ProducerBusy if somebody else has the right."""
    FENCING = "fencing"
    """Nobody; whoever has the right loses it, and is told ProducerFenced."""
    WAIT = "wait"
    """Nobody, as soon as nobody else has the right: opening waits for that."""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """Of one producer, for all segments of its topic together where nothing else is said."""

    batch_messages_max: int = 1_000
    """How many messages may go into one entry, if so many wait for the same segment."""
    batch_bytes_max: int = 128 << 10
    """A single larger message goes alone."""
    linger_ms: int = 0
    """How long a message waits for company. Without it, as long as earlier ones fill the window."""
    compression: Compression = Compression.NONE
    """Of entries; one that would not be smaller goes as it is."""
    access: Access = Access.SHARED
    pending_messages_max: int = 10_000
    """That are not confirmed."""
    pending_bytes_max: int = 64 << 20
    """Of their payloads, keys and properties."""

    def __post_init__(self) -> None:
        for name in ("batch_messages_max", "batch_bytes_max", "pending_messages_max", "pending_bytes_max"):
            if getattr(self, name) < 1:
                raise InvalidRequest(f"{name}={getattr(self, name)}: at least 1")
        if self.batch_messages_max > BATCH_MESSAGES_LIMIT or not 0 <= self.linger_ms <= LINGER_MS_MAX:
            raise InvalidRequest(
                f"batch_messages_max={self.batch_messages_max}, linger_ms={self.linger_ms}: at most "
                f"{BATCH_MESSAGES_LIMIT} (BATCH_MESSAGES_LIMIT) and {LINGER_MS_MAX} (LINGER_MS_MAX)"
            )
