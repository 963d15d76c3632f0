"""The metadata service of a soak, with a namespace for each kind of work, which several may kill."""

from __future__ import annotations

import sys
import threading
from typing import Literal

from linearizability.history import Progress
from linearizability.recording import Ground
from support.server import ServerProcess, Sorting

WATCHED, RECORDS, TOPICS = "watched", "records", "topics"
SHARDS = {WATCHED: 2, RECORDS: 1, TOPICS: 2}
"""In their order, in which they are numbered: the judge of watches counts from 0."""
WELL_WITHIN_S = 60.0
RECORDS_GROUND = Ground(RECORDS, SHARDS[WATCHED])
RETENTION = "2m"
"""Of changes; what watches want again is younger."""


class SoakServer(ServerProcess):
    """Our service with these namespaces."""

    def _base_command(self, shards: int, sorting: Sorting, notifications: bool) -> list[str]:
        config = self.directory / "metastore.toml"
        config.write_text("".join(f'[[namespaces]]\nname = "{name}"\nshards = {n}\n' for name, n in SHARDS.items()))
        return [
            *(sys.executable, "-m", "metastore.commandline", "metastore"),
            *("--public-addr", self.address, "--metrics-addr", self.metrics_address),
            *("--data-dir", str(self.data_directory), "--config", str(config)),
            *("--notifications-retention-time", RETENTION),
        ]


class Grounds:
    """The service, as those see it who kill it: one at a time, and whoever needs to know is told."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.address = server.address
        self.kills = 0
        self._turn = threading.Lock()
        self._told: list[Progress] = []
        self._are_all_well = threading.Event()
        self._are_all_well.set()

    def tell(self, progress: Progress) -> None:
        """This one's clients wait while the service is away."""
        with self._turn:
            self._told.append(progress)

    def forget(self, progress: Progress) -> None:
        with self._turn:
            self._told.remove(progress)

    def all_are_well(self) -> None:
        """What stands on it does its work again, or has none."""
        self._are_all_well.set()

    def wait_until_all_are_well(self) -> None:
        """Returns when all have got over the last time: clients are patient for a while, and not for ever."""
        self._are_all_well.wait(WELL_WITHIN_S)

    def restart(self, how: Literal["kill"]) -> None:
        """Kills it, and returns when it serves again."""
        with self._turn:
            for progress in self._told:
                progress.server_up.clear()
            self.server.restart(how)
            self.kills += 1
            self._are_all_well.clear()
            for progress in self._told:
                progress.server_up.set()


class Considerate:
    """The same for those who can wait: it is killed when all are well."""

    def __init__(self, grounds: Grounds) -> None:
        self.address = grounds.address
        self._grounds = grounds

    def restart(self, how: Literal["kill"]) -> None:
        self._grounds.wait_until_all_are_well()
        self._grounds.restart(how)
