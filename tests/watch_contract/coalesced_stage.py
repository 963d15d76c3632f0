"""A run on a store that may tell several changes as one: no witness can be had there, and none is needed."""

from __future__ import annotations

import asyncio
from functools import partial

from metastore.interface import MetadataStore
from shard_model.order import ENCODERS
from watch_contract.coalesced import check_coalesced, lives_of, lives_on
from watch_contract.stage import Stage
from watch_contract.truth import Lens
from watch_contract.verdict import History
from watch_contract.violations import Findings
from watch_contract.watcher import Watcher


class CoalescedStage(Stage):
    """The watchers begin with snapshots, and have seen enough when they know the range as it is in the end."""

    may_begin_now = False

    def judge(self, history: History) -> Findings:
        return check_coalesced(history)

    async def _begin_witness(self, store: MetadataStore) -> list[asyncio.Task[None]]:
        return []

    async def settle(self) -> None:
        """The last writes; nobody says that they were told, but the watchers themselves."""
        await self._mark_shards()

    def _aim(self, history: History) -> None:
        lives = lives_of(history)
        for watcher in self._watchers:
            scope = watcher.sighting.scope
            lens = Lens(scope, ENCODERS[self.plan.sorting])
            last = {key: life[-1] for key, life in lives_on(history, lives, scope).items()}
            versions = {
                key: held.version.version_id for key, held in last.items() if held is not None and lens.holds(key, held)
            }
            watcher.aim(partial(self._knows, watcher, versions))

    @staticmethod
    def _knows(watcher: Watcher, versions: dict[str, int]) -> bool:
        return watcher.versions == versions
