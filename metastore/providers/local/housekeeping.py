"""What has to be done from time to time, by one thread: heartbeats, expiry, trimming, readers that stand still."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from metastore.clock import Clock
from metastore.engine.errors import ShardStopped
from metastore.engine.ticking import TEND_INTERVAL_S, Ticker, trim_interval_s
from metastore.providers.local.failures import translated
from metastore.providers.local.lasting import Lasting
from metastore.providers.local.shards import OpenShard

logger = logging.getLogger("tidemark.local")


class Housekeeper:
    """The thread that looks after an open store."""

    def __init__(
        self,
        shards: Sequence[OpenShard],
        lasting: Lasting,
        retention_ms: int,
        clock: Clock,
    ) -> None:
        self._shards = shards
        self._clock = clock
        self._lasting = lasting
        self._trim_interval_s = trim_interval_s(retention_ms)
        self._trim_at_s = clock.monotonic_s() + self._trim_interval_s
        self._tend_at_s = clock.monotonic_s() + TEND_INTERVAL_S
        self._stopped: set[OpenShard] = set()
        self._complained: set[OpenShard] = set()
        self._ticker = Ticker(self.tick, "tidemark-housekeeper")

    def start(self) -> None:
        """Begins."""
        self._ticker.start()

    def stop(self) -> None:
        """Ends the thread; returns when it has ended."""
        self._ticker.stop()

    def tick(self) -> None:
        """Does what is due. Heartbeats come before expiry: a session that can be kept is kept."""
        self._lasting.beat()
        now_s = self._clock.monotonic_s()
        is_trim_due = now_s >= self._trim_at_s
        is_tending_due = now_s >= self._tend_at_s
        for shard in self._shards:
            failure = shard.shard.rounds.failure
            if failure is None:
                self._look_after(shard, now_s, is_trim_due, is_tending_due)
            elif shard not in self._stopped:
                self._stopped.add(shard)
                self._lasting.fail_soon(translated(ShardStopped(f"shard {shard.shard_id} stopped: {failure}")))
        if is_trim_due:
            self._trim_at_s = now_s + self._trim_interval_s
        if is_tending_due:
            self._lasting.tend(now_s)
            self._tend_at_s = now_s + TEND_INTERVAL_S

    def _look_after(self, shard: OpenShard, now_s: float, is_trim_due: bool, is_tending_due: bool) -> None:
        try:
            shard.shard.expire_sessions()
            if is_trim_due:
                shard.shard.trim_log()
            if is_tending_due:
                shard.hub.tend(now_s)
        except Exception as error:
            # It is tried again at the next tick; what fails then fails often, and once is enough to hear.
            if shard not in self._complained:
                self._complained.add(shard)
                logger.error("housekeeping of shard %d: %s", shard.shard_id, error, exc_info=error)
