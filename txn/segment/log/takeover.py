"""How an owner takes over a log that is kept as records: it ends the ledger before, then says so in the state.

The state comes last, so whoever is interrupted has changed nothing that the next one would not do again. And it is put
on the condition that nobody has changed it meanwhile, so what was found out under it still holds: above all where the
ledger ends, which cannot be told once it is trimmed further. How long all this takes does not depend on how long the
log is: only the records behind the confirmed end that the newest chunk names are looked at, and of those there are no
more than an owner may have under way.
"""

from __future__ import annotations

from contextlib import aclosing

from metastore.coordination import Backoff, Pace
from metastore.interface import ABSENT, OutcomeUnknown, UnexpectedVersion
from txn.model.errors import SegmentUnavailable
from txn.model.position import Position
from txn.segment.log.chunk import ChunkKind
from txn.segment.log.fences import Fence
from txn.segment.log.records import ENTRY_LAST, LogRecords, StoredState
from txn.segment.log.state import LogState

TAKEOVER_ATTEMPTS_MAX = 8
"""How often it is begun anew because the state changed meanwhile: by an owner that trims, or by another successor."""
CLOSING_ATTEMPTS_MAX = 64
"""How often an owner that does not know yet that it is deposed may be faster than the one who closes its ledger."""


async def take_over(records: LogRecords, fence: Fence, term: int, pace: Pace) -> StoredState:
    """Makes the log the property of a term. Fenced if that term comes too late."""
    mark = pace.new_mark()
    backoff = Backoff(pace)
    for _ in range(TAKEOVER_ATTEMPTS_MAX):
        stored = await records.state()
        if stored is not None and stored.state.mark == mark:
            return stored  # one's own put, whose answer was lost
        if stored is not None:
            stored.state.check_older_than(term)
        await fence.raise_to(term)
        if stored is None:
            after = LogState(records.segment, term, mark)
        else:
            length = await _close_ledger(records, fence, stored.state, mark)
            await records.remove_before(stored.state, stored.state.trimmed)
            after = stored.state.successor(term, mark, length)
        try:
            return await records.store_state(after, ABSENT if stored is None else stored.version_id)
        except (UnexpectedVersion, OutcomeUnknown):
            await backoff.pause()
    raise SegmentUnavailable(
        f"the log of {records.segment!r} was not taken over in {TAKEOVER_ATTEMPTS_MAX} attempts "
        "(TAKEOVER_ATTEMPTS_MAX): try again"
    )


async def _close_ledger(records: LogRecords, fence: Fence, state: LogState, mark: str) -> int:
    """Ends the newest ledger; its length from now on."""
    for _ in range(CLOSING_ATTEMPTS_MAX):
        length, is_closed = await find_end(records, state)
        if is_closed or await fence.close(Position(state.term, length), mark):
            return length
    raise SegmentUnavailable(
        f"ledger {state.term} of {records.segment!r} could not be closed in {CLOSING_ATTEMPTS_MAX} attempts "
        "(CLOSING_ATTEMPTS_MAX): its owner writes on, or the store does not answer: try again"
    )


async def find_end(records: LogRecords, state: LogState) -> tuple[int, bool]:
    """How many entries without a gap the newest ledger has, and whether it is closed there.

    What lies before the trimmed part's end is not looked at: it may be there or not. It ends between two chunks.
    """
    begin = state.trimmed.entry if state.trimmed.ledger == state.term else 0
    newest = await records.chunk_holding(state.term, ENTRY_LAST)
    if newest is None or newest.first.entry < begin:
        return begin, False
    end = max(begin, newest.confirmed_end)
    async with aclosing(records.chunks(state.term, end)) as chunks:
        async for chunk in chunks:
            if chunk.first.entry != end:
                break
            if chunk.kind is ChunkKind.CLOSING:
                return end, True
            end = chunk.end
    return end, False
