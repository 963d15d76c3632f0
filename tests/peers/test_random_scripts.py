"""Random scripts, sent to a real Oxia and to this project's server: the answers are equal, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import cast

import pytest

from peers.oxia import oxia_server
from peers.player import Line, Player
from support.scripts import random_script
from support.server import ServerProcess, Sorting
from support.wire import WireClient

pytestmark = pytest.mark.peers

SCRIPTS = 12
"""Each has a shard of its own, so that it finds nothing there."""


@pytest.fixture(scope="module", params=["hierarchical", "natural"])
def sorting(request: pytest.FixtureRequest) -> Sorting:
    return cast(Sorting, request.param)


@pytest.fixture(scope="module")
def clients(sorting: Sorting) -> Iterator[tuple[WireClient, WireClient]]:
    """Of Oxia, and of ours."""
    with ExitStack() as stack:
        servers = [oxia_server(SCRIPTS, sorting), ServerProcess(SCRIPTS, sorting)]
        oxia, ours = (stack.enter_context(server).address for server in servers)
        yield stack.enter_context(WireClient(oxia)), stack.enter_context(WireClient(ours))


def differences(oxia: Sequence[Line], ours: Sequence[Line]) -> list[str]:
    """Where the two servers, or they and the model, do not say the same."""
    return [
        f"{there.about}\n  Oxia  {there.said!r}\n  ours  {here.said!r}\n  model {there.expected!r}"
        for there, here in zip(oxia, ours, strict=True)
        if not there.said == here.said == there.expected
    ]


@pytest.mark.parametrize("seed", range(SCRIPTS))
def test_answers_are_equal(seed: int, sorting: Sorting, clients: tuple[WireClient, WireClient]) -> None:
    script = random_script(seed, sorting)
    oxia, ours = (Player(client, shard=seed).play(script) for client in clients)
    found = differences(oxia, ours)
    assert not found, f"{len(found)} of {len(oxia)} answers differ; the first:\n" + "\n".join(found[:3])
