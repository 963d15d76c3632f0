"""The stores that transactions are tried on: a choice from the table of all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.stores import SUBJECTS, TABLE, Subject, parameters

CHOSEN = (
    "memory-natural",
    "memory-lacking",
    "lmdb-1",
    "service-1",
    "service-8",
    "oxia-8",
)
TRIED = [each for each in SUBJECTS if SUBJECTS is not TABLE or each.name in CHOSEN]


@pytest.fixture(scope="session", params=parameters(TRIED))
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """Each of them, started once."""
    found: Subject = request.param
    with found.started():
        yield found
