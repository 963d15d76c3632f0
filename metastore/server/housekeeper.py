"""What has to be done from time to time, by one thread: sessions that end, logs to trim, readers that stand still."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from metastore.clock import Clock
from metastore.engine.errors import EngineError
from metastore.engine.ticking import TEND_INTERVAL_S, Ticker, trim_interval_s
from metastore.server.calls import OneRequest, Report, StreamedAnswer
from metastore.server.errors import unavailable
from metastore.server.health import HealthService
from metastore.server.host import ShardHost
from metastore.server.router import Router
from metastore.server.streams import OpenCall
from metastore.server.tidemark.watch_stream import WatchCall

logger = logging.getLogger("tidemark.metastore")

TICK_S_MAX = 1.0
"""More than that between two ticks was a standstill: of the process, or for want of a processor."""
STALLED_READER_S = 60.0
"""A scan whose reader takes nothing for so long is ended: its snapshot keeps LMDB from reusing space. So is a call of
any kind that has ended already, as far as the server is concerned, but whose last messages nobody takes."""

Progress = tuple[int, int]
"""Of a call: changes whenever its reader takes a message."""


class Housekeeper:
    """The thread that looks after the shards of a process."""

    def __init__(
        self,
        shards: Iterable[ShardHost],
        router: Router,
        health: HealthService,
        retention_ms: int,
        clock: Clock,
        report: Report,
    ) -> None:
        self._shards = tuple(shards)
        self._router = router
        self._health = health
        self._clock = clock
        self._report = report
        self._trim_interval_s = trim_interval_s(retention_ms)
        self._trim_at_s = clock.monotonic_s() + self._trim_interval_s
        self._tend_at_s = clock.monotonic_s()
        self._ticked_s = clock.monotonic_s()
        self._standing: dict[OneRequest, tuple[Progress, float]] = {}
        self._failed: set[int] = set()
        self._stopped: set[int] = set()
        self._ticker = Ticker(self.tick, "housekeeper")

    def start(self) -> None:
        """Begins."""
        self._ticker.start()

    def stop(self) -> None:
        """Ends the thread; returns when it has ended."""
        self._ticker.stop()

    def tick(self) -> None:
        """Does what is due by now: should the process stand still in here, what came meanwhile is seen next time."""
        now_s = self._clock.monotonic_s()
        standstill_s = now_s - self._ticked_s - TICK_S_MAX
        self._ticked_s = now_s
        if standstill_s > 0:
            self._on_standstill(standstill_s)
        is_trim_due = now_s >= self._trim_at_s
        is_tend_due = now_s >= self._tend_at_s
        for host in self._shards:
            failure = host.shard.rounds.failure
            if failure is not None:
                self._on_stopped(host, failure)
                continue
            try:
                host.shard.expire_sessions(now_s)
                if is_trim_due:
                    host.shard.trim_log()
                if is_tend_due:
                    host.watches.tend(now_s)
                    host.shard.points.tend()
            except EngineError as error:
                self._report_once(host.shard_id, error)
            except Exception as error:
                self._report(f"housekeeping of shard {host.shard_id}", error)
        if is_trim_due:
            self._trim_at_s = now_s + self._trim_interval_s
        if is_tend_due:
            self._tend_at_s = now_s + TEND_INTERVAL_S
        self._end_stalled(now_s)
        self._tell_progress(now_s)
        self._health.announce()

    def _on_standstill(self, standstill_s: float) -> None:
        """What clients have sent meanwhile is still to be read: nobody is taken for dead for it, or for slow."""
        logger.warning("stood still for %.1f s: sessions and readers are given that time once more", standstill_s)
        for host in self._shards:
            host.shard.note_standstill(standstill_s)
        self._standing = {
            call: (progress, since_s + standstill_s) for call, (progress, since_s) in self._standing.items()
        }

    def _tell_progress(self, now_s: float) -> None:
        for call in self._router.open_calls():
            if isinstance(call, WatchCall):
                call.tick(now_s)

    def _on_stopped(self, host: ShardHost, failure: BaseException) -> None:
        """A shard that stopped says why, once, and lets those go who would wait for its news for ever."""
        if host.shard_id in self._stopped:
            return
        self._stopped.add(host.shard_id)
        self._report(f"shard {host.shard_id} stopped", failure)
        for call in self._router.open_calls():
            if isinstance(call, OpenCall):
                call.on_shard_stopped(host, failure)

    def _report_once(self, shard_id: int, error: EngineError) -> None:
        """What fails may fail at every tick; once is enough to hear."""
        if shard_id not in self._failed:
            self._failed.add(shard_id)
            self._report(f"housekeeping of shard {shard_id}", error)

    def _end_stalled(self, now_s: float) -> None:
        """Cuts off the calls that have waited for their readers for too long.

        To fail them would not do: the error would wait, and the snapshot with it, behind what the reader does not take.
        """
        standing: dict[OneRequest, tuple[Progress, float]] = {}
        for call in self._router.open_calls():
            progress = _progress_of_waiting(call)
            if progress is None:
                continue
            seen, since_s = self._standing.get(call, (None, now_s))
            if seen != progress:
                standing[call] = (progress, now_s)
            elif now_s - since_s < STALLED_READER_S:
                standing[call] = (progress, since_s)
            else:
                call.cut_off(unavailable(f"the reader took nothing for {STALLED_READER_S:.0f} s"))
        self._standing = standing


def _progress_of_waiting(call: OneRequest) -> Progress | None:
    """How far a call has come that waits for its reader; None if it waits for something else, or may wait for ever."""
    if not call.call.is_sending:
        return None
    if isinstance(call, StreamedAnswer):
        return call.produced, call.call.unsent_count
    return (0, call.call.unsent_count) if call.call.is_finished else None
