"""Group commit: everything that waits shares one append and one fsync.

Whoever submits a request tries to become the driver. The driver takes what waits, stages it, makes it durable,
publishes it and answers, and goes on until nothing waits; the others have left their request and gone on with
something else. So a lone request is written by the thread that brought it, with no handover, and many requests
form groups by themselves while the driver is in its fsync.

Nothing is answered before it is durable. A request that the stage refuses fails alone. When the disk has no space
left, requests that only delete may use the log's reserve; the others fail. When an append or fsync fails in any
other way, nobody can know what is on disk: the shard stops.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from metastore.clock import Clock
from metastore.engine import limits
from metastore.engine.errors import EngineError, Overloaded, ShardStopped, StoreFull
from metastore.engine.feeder import Feeder
from metastore.engine.keys import KeyOrder
from metastore.engine.sessions import SessionSchedule
from metastore.engine.stage import Stage
from metastore.engine.statistics import ShardStatistics
from metastore.engine.store import Store
from metastore.faults import Faults
from metastore.log import Log, LogFull

PACE_S_MAX = 0.02
"""How long a round may be held up when LMDB falls behind; grows with the lag."""

T = TypeVar("T")
Done = Callable[[Any, BaseException | None], None]


class Chain:
    """Writes of one client in their order: once one of them has failed, none behind it may be applied."""

    __slots__ = ("is_broken",)

    def __init__(self) -> None:
        self.is_broken = False


class Request:
    """A write that waits for its round."""

    __slots__ = ("argument", "chain", "done", "makes_space", "since_s", "stage")

    def __init__(
        self,
        stage: Callable[[Stage, Any], Any],
        argument: Any,
        done: Done,
        makes_space: bool,
        chain: Chain | None = None,
    ) -> None:
        self.stage = stage
        self.argument = argument
        self.done = done
        self.makes_space = makes_space
        """It only deletes: allowed on a full disk."""
        self.chain = chain
        self.since_s = 0.0


class Outcome:
    """What a round made of a request."""

    __slots__ = ("error", "request", "result")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.result: Any = None
        self.error: BaseException | None = None

    def refuse(self, error: BaseException) -> None:
        """The request failed, and everything that is chained behind it."""
        self.result, self.error = None, error
        if self.request.chain is not None:
            self.request.chain.is_broken = True


class Rounds:
    """The writing side of a shard."""

    def __init__(
        self,
        store: Store,
        log: Log,
        feeder: Feeder,
        order: KeyOrder,
        clock: Clock,
        sessions: SessionSchedule,
        quota_bytes: int | None,
        faults: Faults,
        statistics: ShardStatistics,
    ) -> None:
        self.statistics = statistics
        self._store = store
        self._log = log
        self._feeder = feeder
        self._order = order
        self._clock = clock
        self._sessions = sessions
        self._quota_bytes = quota_bytes
        self._faults = faults
        self._waiting: deque[Request] = deque()
        self._driving = threading.Lock()
        self._driver: int | None = None
        """The thread that drives."""
        self._failure: BaseException | None = None
        self._is_full = False
        self._in_doubt = False
        """Between the append and the publication: an error here may have left anything on disk."""
        self._quota_checked_at_applied = -1
        self.schedule: Callable[[Callable[[], None]], None] = _at_once
        """How the submitter of a request comes to drive: at once, or when it has brought all that it has."""
        self.on_round: list[Callable[[Stage], None]] = []
        """Called after each durable round, by its driver."""

    @property
    def failure(self) -> BaseException | None:
        """Why the shard stopped, if it did."""
        return self._failure

    def fail(self, error: BaseException) -> None:
        """Stops the shard: everything that waits, and everything after, is refused."""
        if self._failure is None:
            self._failure = error
        self._drive_while_waiting()

    def submit(self, request: Request) -> None:
        """Takes a request. It is answered exactly once, by this thread before the return or by another one."""
        request.since_s = self._clock.monotonic_s()
        if len(self._waiting) >= limits.WAITING_REQUESTS_MAX:
            request.done(None, Overloaded(f"{limits.WAITING_REQUESTS_MAX} write requests wait already"))
            return
        self._waiting.append(request)
        self.schedule(self._drive_while_waiting)

    def between_rounds(self, action: Callable[[], T]) -> T:
        """Does something while no round is under way: at once, if a round has called the caller back."""
        if self._driver == threading.get_ident():
            return action()
        try:
            with self._driving:
                return action()
        finally:
            self._drive_while_waiting()

    def _drive_while_waiting(self) -> None:
        while self._waiting and self._driving.acquire(blocking=False):
            self._driver = threading.get_ident()
            try:
                while self._waiting:
                    self._drive()
            finally:
                self._driver = None
                self._driving.release()

    def _drive(self) -> None:
        if self._failure is not None:
            self._refuse_all()
            return
        outcomes: list[Outcome] = []
        try:
            stage = self._round(outcomes)
        except BaseException as error:
            if self._in_doubt:
                self._failure = error
            failure = self._stopped() if self._in_doubt else error
            for outcome in outcomes:
                outcome.refuse(failure)
            _answer(outcomes)
            if not isinstance(error, Exception):
                raise
            return
        _answer(outcomes)
        if stage.entries:
            for listener in self.on_round:
                listener(stage)
        self._pace()

    def _refuse_all(self) -> None:
        while self._waiting:
            self._waiting.popleft().done(None, self._stopped())

    def _stopped(self) -> ShardStopped:
        return ShardStopped(f"the shard stopped: {self._failure}")

    def _round(self, outcomes: list[Outcome]) -> Stage:
        """One round: fills in the outcomes of what it takes. When it raises, all of these have failed."""
        self._check_space()
        began_s = self._clock.monotonic_s()
        with self._store.lock:
            stage = Stage(self._store, self._order, self._clock.wall_ms())
            self._stage(stage, outcomes)
        staged_s = self._clock.monotonic_s()
        if stage.entries:
            self._faults.reach("round.append.before")
            makes_space = all(outcome.request.makes_space or outcome.error for outcome in outcomes)
            self._in_doubt = True
            try:
                offset = self._log.append(stage.entries, stage.time_ms, from_reserve=makes_space)
            except LogFull as error:
                self._in_doubt = False
                self._after_log_full(outcomes, makes_space, str(error))
                return Stage(self._store, self._order, stage.time_ms)
            assert offset == stage.first_offset, "the log and the store disagree about the next offset"
            self._log.sync()
            self._faults.reach("round.sync.after")
            self._publish(stage)
            self._in_doubt = False
            self._count(stage, outcomes)
            self.statistics.stage_seconds.observe(staged_s - began_s)
            self.statistics.sync_seconds.observe(self._clock.monotonic_s() - staged_s)
        return stage

    def _count(self, stage: Stage, outcomes: list[Outcome]) -> None:
        statistics = self.statistics
        statistics.puts += stage.puts
        statistics.deletes += stage.deletes
        statistics.delete_ranges += stage.delete_ranges
        statistics.log_bytes += stage.size_bytes
        statistics.round_requests.observe(len(outcomes))
        now_s = self._clock.monotonic_s()
        for outcome in outcomes:
            statistics.write_seconds.observe(now_s - outcome.request.since_s)

    def _stage(self, stage: Stage, outcomes: list[Outcome]) -> None:
        """Stages what waits, up to the bounds of a round."""
        while self._waiting and len(outcomes) < limits.ROUND_REQUESTS_MAX and stage.size_bytes < limits.ROUND_BYTES_MAX:
            request = self._waiting.popleft()
            outcome = Outcome(request)
            outcomes.append(outcome)
            if request.chain is not None and request.chain.is_broken:
                outcome.refuse(EngineError("an earlier write of the same stream failed"))
            elif self._is_full and not request.makes_space:
                outcome.refuse(self._full("the store is over its quota, or LMDB cannot be written"))
            else:
                try:
                    outcome.result = request.stage(stage, request.argument)
                except EngineError as error:
                    outcome.refuse(error)

    def _publish(self, stage: Stage) -> None:
        with self._store.lock:
            self._store.publish(stage.generation, stage.durable)
            now_s = self._clock.monotonic_s()
            for session_id, timeout_ms in stage.sessions_begun:
                self._sessions.add(session_id, timeout_ms, now_s)
            for session_id in stage.sessions_ended:
                self._sessions.remove(session_id)

    def _after_log_full(self, outcomes: list[Outcome], made_space: bool, why: str) -> None:
        """Refuses what wants space; what makes space goes first into the next round, which may use the reserve."""
        again = []
        for outcome in list(outcomes):
            if outcome.error is None and outcome.request.makes_space and not made_space:
                again.append(outcome.request)
                outcomes.remove(outcome)
            elif outcome.error is None:
                outcome.refuse(self._full(why))
        self._waiting.extendleft(reversed(again))

    def _full(self, why: str) -> StoreFull:
        self.statistics.refused_full += 1
        return StoreFull(f"{why}: reads and deletes go on, and writes as soon as there is space")

    def _check_space(self) -> None:
        """Judges the size against the quota anew when LMDB has moved, and the lag when the disk is full."""
        store = self._store
        if self._feeder.is_blocked and store.active.size_bytes > store.options.lag_bytes_max:
            self._is_full = True
            self._quota_checked_at_applied = -1
        elif self._quota_bytes is None:
            self._is_full = False
        elif self._is_full or store.applied.next_offset != self._quota_checked_at_applied:
            with store.lock:
                self._is_full = store.size_bytes() > self._quota_bytes
            self._quota_checked_at_applied = store.applied.next_offset

    def _pace(self) -> None:
        """Holds the writers up a little when LMDB falls behind, the more the further, so that it can catch up."""
        store = self._store
        size, low, high = store.active.size_bytes, store.options.generation_bytes, store.options.lag_bytes_max
        if size <= low:
            return
        self._feeder.wake()
        if store.frozen is None or size <= 2 * low:
            return
        pause_s = PACE_S_MAX * min(1.0, (size - 2 * low) / (high - 2 * low))
        with self._feeder.progress:
            self._feeder.progress.wait(pause_s)
        self.statistics.paced_seconds += pause_s


def _at_once(action: Callable[[], None]) -> None:
    action()


def _answer(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        outcome.request.done(outcome.result, outcome.error)
