"""What can be said of all work that arrives: values, so that a command line can name them without loading a client."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be said of all scenarios."""

    targets: tuple[str, ...]
    """URLs: a metadata store, brokers (tidemark://), or one of each."""
    mark: str
    """Of the run; names of what is made only for it end in it."""
    seed: int = 0
    records: int = 10_000
    value_bytes: int = 128
    reads: float = 0.8
    """The share of reads among points."""
    distribution: str | None = None
    """Of keys; None: the scenario's own."""
    commits: float = 0.9
    """The share of transactions that are committed."""
