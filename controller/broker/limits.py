"""What a broker allows. What is larger is refused by name, and nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass

from txn.segment.entry import MESSAGES_MAX, PROPERTIES_MAX

KIBI, MEBI = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """The limits of one broker; clients are told of them by DescribeBroker."""

    request_bytes_max: int = 16 * MEBI
    """Of one request, of whatever kind: gRPC itself refuses what is larger."""
    entry_bytes_max: int = 3 * MEBI
    """Of one entry as it is sent, properties included. Every kind of log takes groups of this size."""
    message_count_max: int = MESSAGES_MAX
    properties_max: int = PROPERTIES_MAX
    name_bytes_max: int = 512
    sends_per_request_max: int = 10_000
    window_entries_max: int = 2_000
    """Entries of one producer without an answer."""
    window_bytes_max: int = 8 * MEBI
    """And their payloads, where it is more than one entry."""
    acks_per_request_max: int = 1_000
    acknowledges_under_way_max: int = 256
    """Acknowledge requests of one consumer without an answer. While there are so many its stream is not read."""
    permits_max: int = 100_000
    deliveries_per_response_max: int = 1_000
    response_bytes_max: int = 1 * MEBI
    """What deliveries are put together up to. One entry is never divided."""
    streams_max: int = 2_000
    """Produce, Consume and Read streams together."""
    sessions_max: int = 20_000
    """Watches of topics and namespaces, consumers that have registered, and claims together."""
    segments_per_page_max: int = 1_000
