"""What the admin service allows. What is larger, or takes longer, is refused by name, and nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdminLimits:
    """The limits of one admin service."""

    body_bytes_max: int = 256 << 10
    """Of one request's body: more than all properties of a topic need."""
    path_bytes_max: int = 16 << 10
    """Of one request's path and query, as they were sent."""
    request_timeout_s: float = 60.0
    """How long a request may take, its body and whatever the brokers do included."""
    requests_max: int = 500
    """Requests under way at once."""
    idle_s: int = 30
    """How long a connection is kept on which nothing comes."""
    end_s: int = 3
    """How long requests under way have to be answered at the end."""
