"""Brings messages into the log, in rounds: take what waits, give it positions, record the intents, append.

The publisher is the only one who appends, so a round knows its positions before anything is written: those from the
log's next one on. Transactions of the round are pinned there at once; then one operation record for each of them says
where its entries will be; and when those are durable the round is appended, and the next begins while the log still
writes. A message whose record could not be put leaves a void entry in its place, so that what was announced of all
others stays true.

Where the log takes positions back, because it has no space, all that was announced from there on is void. A position
that was announced is never given to another entry: before the next round, voids fill the log up to there. So whatever
becomes of a record, be it left behind or late, what lies where it points is the transaction's own entry, or nothing.

A message that is refused for a while takes all later ones of its producer along, as far as they wait: else they would
be before it when it is sent again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from metastore.faults import Faults
from metastore.interface import OutcomeUnknown, StoreError
from txn.model.errors import SegmentUnavailable, TxnConflict, TxnError, TxnRetriable
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position
from txn.segment.bell import Bell
from txn.segment.buffer.horizon import Horizon
from txn.segment.buffer.line import Line, Sending, UnderWay
from txn.segment.buffer.options import BufferOptions
from txn.segment.buffer.participation import Participation
from txn.segment.buffer.round import Round
from txn.segment.entry import VOID
from txn.segment.errors import Fenced, LogStopped
from txn.segment.log import SegmentLog
from txn.segment.log.records import told
from txn.segment.operations import OperationRecords

_VOID_DATA = VOID.encode()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the publisher asks, and whom it tells."""

    may_append: Callable[[], bool]
    confirmed: Callable[[Position], None]
    """All before that bound is confirmed; each time it moves."""
    ended: Callable[[Exception], None]
    """Nothing more can be appended, and why."""


class Publisher:
    """The one who appends to a segment's log."""

    def __init__(
        self,
        log: SegmentLog,
        line: Line,
        under_way: UnderWay,
        horizon: Horizon,
        operations: OperationRecords,
        surroundings: Surroundings,
        options: BufferOptions,
        faults: Faults,
    ) -> None:
        self._log = log
        self._line = line
        self._under_way = under_way
        self._horizon = horizon
        self._operations = operations
        self._surroundings = surroundings
        self._options = options
        self._faults = faults
        self._bytes_max = min(options.round_bytes_max, log.group_bytes_max)
        self._entries_max = min(options.round_entries_max, log.group_entries_max)
        self._next = log.next_position
        """Behind all entries that were appended, as far as it was noticed."""
        self._announced_end = self._next
        """Behind all positions that were ever announced."""
        self._rounds: deque[Round] = deque()
        """Appended and not answered, in their order."""
        self._bytes = 0
        self._is_at_work = False
        self._wake = asyncio.Event()
        self._progress = Bell()

    # -- working

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def end(self) -> None:
        """Nothing more will be done: wakes who waits for the end."""
        self._progress.ring()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            while not self._can_go():
                self._wake.clear()
                await self._wake.wait()
            self._is_at_work = True
            try:
                self._reap()
                await self._publish(self._line.take(self._entries_max, self._bytes_max))
            finally:
                self._is_at_work = False
                self._progress.ring()

    def _can_go(self) -> bool:
        options = self._options
        has_room = len(self._rounds) < options.rounds_under_way_max and self._bytes < options.bytes_under_way_max
        return has_room and self._line.has_ready and self._surroundings.may_append()

    async def drained(self, is_over: Callable[[], bool]) -> None:
        """Returns when everything that was accepted is answered, or when it is over anyway."""
        await self._progress.until(lambda: is_over() or not (self._line.entries or self._is_at_work or self._rounds))

    async def _publish(self, sendings: Sequence[Sending]) -> None:
        """One round. Whatever happens, everybody in it is answered."""
        fitting = [each for each in sendings if self._is_fitting(each)]
        if not fitting or not self._fill(fitting):
            return
        round = Round(self._log.next_position, fitting)
        for participation, places in round.shares.items():
            self._horizon.pin(participation.txn_id, round.position(places[0]))
            participation.begin_round()
        try:
            if round.shares:
                self._refuse(round, await self._announce(round))
            self._append(round)
        except BaseException:
            if round.confirmation is None:
                error = SegmentUnavailable(f"publishing to {self._log.segment!r} was interrupted: send it again")
                self._turn_away(round, error)
            raise
        finally:
            if round.confirmation is None:
                self._end_shares(round)

    def _is_fitting(self, sending: Sending) -> bool:
        """Whether it may be written; if not, it is answered."""
        participation = sending.participation
        if participation is None or participation.is_open:
            return True
        self._under_way.fail(sending, participation.conflict())
        return False

    def _fill(self, sendings: Sequence[Sending]) -> bool:
        """Puts voids where something was announced and never came; if that fails these messages fail with it."""
        try:
            while (missing := self._announced_end.entry - self._log.next_position.entry) > 0:
                count = min(missing, self._entries_max)
                self._send(Round(self._log.next_position, (), count), [_VOID_DATA] * count)
        except TxnError as error:
            self._turn_away(Round(self._log.next_position, sendings), error)
            return False
        return True

    # -- intents

    async def _announce(self, round: Round) -> dict[Participation, Exception]:
        """Records where each transaction's entries will be; for which of them that failed, and why."""
        self._announced_end = round.end
        self._faults.reach("txn.publish.intent.before")
        puts = [self._put_intent(round, participation) for participation in round.shares]
        results = [await puts[0]] if len(puts) == 1 else await asyncio.gather(*puts)
        self._faults.reach("txn.publish.intent.after")
        failures: dict[Participation, Exception] = {}
        for participation, failure in zip(round.shares, results, strict=True):
            if failure is not None:
                failures[participation] = failure
            elif not participation.is_open:  # it was decided meanwhile
                failures[participation] = participation.conflict()
        return failures

    async def _put_intent(self, round: Round, participation: Participation) -> Exception | None:
        places = round.shares[participation]
        first, last = round.position(places[0]), round.position(places[-1])
        operation = Operation(OperationKind.WRITE, self._log.segment, first, last if last != first else None)
        txn_id, version = participation.txn_id, participation.header_version
        try:
            keys = await self._operations.put(txn_id, version, [operation])
        except TxnConflict as error:
            return error
        except StoreError as error:
            participation.is_in_doubt |= isinstance(error, OutcomeUnknown)
            return self._told(error)
        participation.note_records(keys, self._operations.now_ms())
        return None

    def _told(self, error: StoreError) -> TxnError:
        """In the words of segments; what no other attempt can mend is raised as it is."""
        try:
            with told(self._log.segment, "recording a write to"):
                raise error
        except TxnError as told_error:
            return told_error

    def _refuse(self, round: Round, failures: dict[Participation, Exception]) -> None:
        """Those whose record was not put do not get into the log, nor those who would be before them."""
        if not failures:
            return
        stopped = round.refuse(failures)
        for sending, error in round.refused():
            self._under_way.fail(sending, error)
        self._line.fail_of(stopped)
        pins = {each.participation.txn_id: each.first for each in round.spans() if each.participation.is_open}
        self._horizon.repin(round.first, pins)

    # -- appending

    def _append(self, round: Round) -> None:
        self._reap()
        if self._log.next_position != round.first:
            gave_up = f"the log of {self._log.segment!r} gave up what was appended before this: send it again"
            self._horizon.repin(round.first, {})
            self._turn_away(round, SegmentUnavailable(gave_up))
        elif not round.is_void:
            try:
                self._send(round, round.data(_VOID_DATA))
            except TxnError as error:
                self._horizon.repin(round.first, {})
                self._turn_away(round, error)

    def _send(self, round: Round, data: Sequence[bytes]) -> None:
        """Appends. If the log raises anything, nothing was changed."""
        try:
            confirmation = asyncio.ensure_future(self._log.append(data))
        except (Fenced, LogStopped) as error:
            self._surroundings.ended(error)
            raise
        assert self._log.next_position == round.end, f"{round.first} to {round.end} were announced and not taken"
        self._next = round.end
        round.bytes = sum(map(len, data))
        round.confirmation = confirmation
        self._bytes += round.bytes
        self._rounds.append(round)
        confirmation.add_done_callback(lambda _: self._reap())

    def _reap(self) -> None:
        """Answers those whose rounds have come to their end, in order; notices if positions were taken back.

        It is called when a round ends, and before anything is decided by where the log stands.
        """
        while self._rounds and (confirmation := self._rounds[0].confirmation) is not None and confirmation.done():
            round = self._rounds.popleft()
            self._bytes -= round.bytes
            error = confirmation.exception()
            if error is None:
                self._confirm(round)
            else:
                self._give_up(round, error)
            self._end_shares(round)
            self._wake.set()
            self._progress.ring()

    def _confirm(self, round: Round) -> None:
        self._faults.reach("txn.publish.append.after")
        for participation, first, last in round.spans():
            participation.note_entries(first, last)
        for sending, position in round.written():
            self._under_way.confirm(sending, position)
        self._surroundings.confirmed(round.end)

    def _give_up(self, round: Round, error: BaseException) -> None:
        if self._log.next_position < self._next:
            # What was pinned behind it belongs to this round, to later ones, or to the one that is being announced,
            # which will find out.
            self._next = self._log.next_position
            self._horizon.repin(self._next, {})
        if not isinstance(error, TxnRetriable) or isinstance(error, Fenced | LogStopped):
            self._surroundings.ended(LogStopped(str(error)) if not isinstance(error, TxnError) else error)
        self._turn_away(round, error)

    def _turn_away(self, round: Round, error: BaseException) -> None:
        """Nobody of a round gets into the log, and nobody before them of those who wait."""
        failure = error if isinstance(error, Exception) else LogStopped("appending was interrupted")
        stopped: dict[str, Exception] = {}
        for sending, _ in list(round.written()):
            self._under_way.fail(sending, failure)
            if sending.producer:
                stopped.setdefault(sending.producer, failure)
        self._line.fail_of(stopped)

    @staticmethod
    def _end_shares(round: Round) -> None:
        for participation in round.shares:
            participation.end_round()
