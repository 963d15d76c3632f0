"""What happens to one transaction from now on, until its records are gone: told by watches, as it happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack

from metastore.coordination import Pace, View
from metastore.interface import exactly
from txn.decoding.rows import AppliedRow, OperationRow, TransactionRow
from txn.doctor.layout import Place
from txn.doctor.participation import Participant
from txn.doctor.portrait import Event, EventKind, decided_text
from txn.doctor.reading import Records

Tell = Callable[[Event], None]


class Follower:
    """Turns news of the records of one transaction into events, each told once."""

    def __init__(self, records: Records, pace: Pace, told: list[Event], tell: Tell) -> None:
        self._records = records
        self._pace = pace
        self._told = {(event.kind, event.participant) for event in told}
        self._tell = tell
        self._leaves_word = True
        """Whether participants leave records of what they have carried out."""
        self._operations: dict[str, Participant] = {}
        """Whose the operation records are that there are."""
        self._left: Counter[Participant] = Counter()

    async def follow(self, txn_id: str) -> None:
        """Returns when the header is gone."""
        layout, sorting = self._records.layout, self._records.store.key_sorting
        header_key, partition = layout.header(txn_id)
        applied = layout.applied_by(txn_id, sorting)
        self._leaves_word = applied is not None
        async with AsyncExitStack() as stack:
            header = await stack.enter_async_context(self._view(Place(exactly(header_key), None, partition)))
            operations = await stack.enter_async_context(self._view(layout.operations_of(txn_id, sorting)))
            views = [operations, header]
            if applied is not None:
                views.insert(1, await stack.enter_async_context(self._view(applied)))
            await self._take_all(views)

    def _view(self, place: Place) -> View:
        return View(
            self._records.store, place.range, index=place.index, partition_key=place.partition_key, pace=self._pace
        )

    async def _take_all(self, views: list[View]) -> None:
        """The header comes last in each round: what it ends has been told before."""
        waiting = {view: asyncio.ensure_future(view.news()) for view in views}
        try:
            while True:
                await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_COMPLETED)
                for view in views:
                    if waiting[view].done():
                        keys = waiting[view].result()
                        if view is views[-1]:
                            if not self._take_header(view):
                                return
                        else:
                            self._take(view, keys)
                        waiting[view] = asyncio.ensure_future(view.news())
        finally:
            for task in waiting.values():
                task.cancel()
            await asyncio.gather(*waiting.values(), return_exceptions=True)

    def _take_header(self, view: View) -> bool:
        """Whether the transaction is still there."""
        rows = [self._records.row(record) for record in view.records.values()]
        if not rows:
            self._say(Event(self._pace.clock.wall_ms(), EventKind.COLLECTED))
            return False
        for row in rows:
            if isinstance(row, TransactionRow) and row.finalized_ms is not None:
                self._say(Event(row.finalized_ms, EventKind.DECIDED, None, decided_text(row)))
        return True

    def _take(self, view: View, keys: frozenset[str]) -> None:
        rows = []
        for key in keys:
            record = view.records.get(key)
            row = None if record is None else self._records.row(record)
            if isinstance(row, OperationRow):
                rows.append(row)
            elif isinstance(row, AppliedRow):
                self._take_applied(row)
            elif record is None:
                self._take_removed(key)
        for row in sorted(rows, key=lambda each: (each.written_ms, each.sequence)):
            participant = Participant(row.segment, row.subscription)
            if row.key not in self._operations:
                self._operations[row.key] = participant
                self._left[participant] += 1
            self._say(Event(row.written_ms, EventKind.FIRST_OPERATION, participant))

    def _take_applied(self, row: AppliedRow) -> None:
        participant = Participant(row.segment, row.subscription)
        self._say(Event(row.first_ms, EventKind.FIRST_OPERATION, participant))
        self._say(Event(row.applied_ms, EventKind.APPLIED, participant, f"by {row.broker}, term {row.term}"))

    def _take_removed(self, key: str) -> None:
        """Participants that leave no word have carried the outcome out when their last operation record goes."""
        participant = self._operations.pop(key, None)
        if participant is None:
            return
        self._left[participant] -= 1
        if self._left[participant] == 0 and not self._leaves_word:
            text = "its operation records are gone"
            self._say(Event(self._pace.clock.wall_ms(), EventKind.APPLIED, participant, text))

    def _say(self, event: Event) -> None:
        if (event.kind, event.participant) not in self._told:
            self._told.add((event.kind, event.participant))
            self._tell(event)
