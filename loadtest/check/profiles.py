"""How much a service has to bear, by size. The rates of puts are those of `etcdctl check perf`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SIZES = ("s", "m", "l", "xl")

RECORDS = "records"
MESSAGES = "messages"
TRANSACTIONS = "transactions"

RATES: Mapping[str, Mapping[str, float]] = {
    RECORDS: {"s": 150.0, "m": 1_000.0, "l": 8_000.0, "xl": 15_000.0},
    MESSAGES: {"s": 150.0, "m": 1_000.0, "l": 4_000.0, "xl": 8_000.0},
    TRANSACTIONS: {"s": 15.0, "m": 50.0, "l": 150.0, "xl": 400.0},
}
"""Per second, of each work."""


def chosen_sizes(asked_for: Sequence[str]) -> tuple[str, ...]:
    """The sizes in ascending order, each once; all of them if none was asked for."""
    assert set(asked_for) <= set(SIZES)
    return tuple(size for size in SIZES if size in asked_for) or SIZES
