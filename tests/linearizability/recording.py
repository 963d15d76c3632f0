"""A round of concurrent clients on a server that is killed under them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, Protocol

from linearizability.history import Plan, Progress, RecordingClient
from linearizability.operations import Operation

CLIENTS = 6
KEYS_PER_ROUND = 4
OPERATIONS_PER_CLIENT = 350
KILLS_PER_ROUND = 2


class Killable(Protocol):
    """A server that can be killed and started again."""

    address: str

    def restart(self, how: Literal["kill"]) -> None: ...


@dataclass(frozen=True, slots=True)
class Ground:
    """Where it takes place."""

    namespace: str = "default"
    shard: int = 0


DEFAULT = Ground()


def record(
    server: Killable,
    number: int,
    progress: Progress | None = None,
    kills: int = KILLS_PER_ROUND,
    ground: Ground = DEFAULT,
) -> list[Operation]:
    """One round: clients on a few new keys, and kills at random points of their work."""
    keys = [b"round-%d/key-%d" % (number, key) for key in range(KEYS_PER_ROUND)]
    progress = progress or Progress()
    plans = [
        Plan(client, 1000 * number + client, keys, OPERATIONS_PER_CLIENT, ground.shard, ground.namespace)
        for client in range(CLIENTS)
    ]
    clients = [RecordingClient(server.address, plan, progress) for plan in plans]
    for client in clients:
        client.start()
    total = CLIENTS * OPERATIONS_PER_CLIENT
    for moment in sorted(random.Random(number).sample(range(total // 10, total * 9 // 10), kills)):
        progress.wait_for(moment)
        progress.server_up.clear()  # first: whoever loses the server must wait, not try in vain
        server.restart("kill")
        progress.server_up.set()
    for client in clients:
        client.join()
    failures = [client.failure for client in clients if client.failure is not None]
    assert not failures, failures
    return [operation for client in clients for operation in client.history]
