"""Concurrent clients of a server that is killed under them: what they saw can have happened in one order."""

from __future__ import annotations

import pytest

from linearizability.operations import Operation, by_key
from linearizability.recording import CLIENTS, KILLS_PER_ROUND, OPERATIONS_PER_CLIENT, record
from linearizability.report import violations
from linearizability.versions import wrong_version_ids
from support.server import ServerProcess

ROUNDS = 3
ROUNDS_MAX = 12
"""Further rounds are for a write to be under way at a kill, which is likely each time and never certain."""


def unanswered(history: list[Operation]) -> int:
    """How many writes were under way when the server was killed."""
    return sum(operation.answer is None for operation in history)


@pytest.mark.timeout(300)
def test_histories_are_linearizable_over_kills() -> None:
    everything: list[Operation] = []
    with ServerProcess() as server:
        rounds = 0
        while rounds < ROUNDS or (not unanswered(everything) and rounds < ROUNDS_MAX):
            history = record(server, rounds)
            found = violations(history)
            assert not found, "\n".join(map(str, found))
            everything += history
            rounds += 1
    wrong = wrong_version_ids(everything)
    assert not wrong, wrong[:10]
    print(
        f"{len(everything)} operations of {CLIENTS} clients on {len(by_key(everything))} keys,"
        f" {rounds * KILLS_PER_ROUND} kills, {unanswered(everything)} writes without an answer: 0 violations"
    )
    # A kill costs each client a read at the most, of those that are not noted: afterwards it waits for the server.
    assert len(everything) >= rounds * CLIENTS * (OPERATIONS_PER_CLIENT - KILLS_PER_ROUND)
    assert unanswered(everything) > 0, f"no kill of {rounds} rounds has met a write"
