"""What the operations of `tidemark txn` do: one function each, from parsed arguments to printed sections."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TextIO

from metastore.coordination import Pace
from metastore.tables import moment_text
from txn.decoding.rows import TransactionRow
from txn.doctor import aborting, horizon, statistics
from txn.doctor.drawing import draw
from txn.doctor.following import Follower
from txn.doctor.horizon import Horizon, Verdict, Writer
from txn.doctor.layout import RecordsKind
from txn.doctor.listing import DECIDED, Wanted, list_transactions
from txn.doctor.portrait import Event, Part, Portrait, decided_text, read
from txn.doctor.progress import Progress
from txn.doctor.reading import Records
from txn.doctor.texts import Duration, Moment, Section, duration_text, line, write_section
from txn.model.errors import TxnNotFound
from txn.model.header import TxnState

STATES = {"open": (TxnState.OPEN,), "committed": (TxnState.COMMITTED,), "aborted": (TxnState.ABORTED,)}
EVERY_STATE = (TxnState.OPEN, *DECIDED)


@dataclass(frozen=True, slots=True)
class Visit:
    """One call of the doctor: what was asked, what it reads, where it prints."""

    arguments: argparse.Namespace
    records: Records
    pace: Pace
    out: TextIO
    progress: Progress

    @property
    def now_ms(self) -> int:
        return self.pace.clock.wall_ms()

    def write(self, *sections: Section) -> None:
        self.progress.wipe()
        for section in sections:
            write_section(section, self.out, as_json=self.arguments.json)

    def say(self, *lines: str) -> None:
        """Prints lines for people; programs have no use for them."""
        self.progress.wipe()
        if not self.arguments.json:
            for text in lines:
                print(line(text), file=self.out, flush=True)

    def write_odd(self) -> None:
        """Names the records that make no sense, if there were any."""
        count, shown = self.records.odd_count, self.records.odd
        rows = [{"key": odd.key, "reason": odd.reason} for odd in shown]
        self.write(Section("odd", rows, f"RECORDS THAT MAKE NO SENSE ({count})"))
        if count > len(shown):
            self.say(f"... and {count - len(shown)} more")


async def list_(visit: Visit) -> None:
    arguments, now_ms = visit.arguments, visit.now_ms
    wanted = Wanted(
        STATES.get(arguments.state, EVERY_STATE),
        arguments.owner,
        arguments.segment,
        arguments.older_than,
        arguments.limit,
    )
    listing = await list_transactions(visit.records, wanted, now_ms)
    rows = [found.cells(now_ms) for found in listing.found]
    if not arguments.json:
        rows = [_without(row, "created_ms", "deadline_ms", "finalized_ms") for row in rows]
    visit.write(Section("transaction", rows, empty="no such transactions"))
    if listing.left_out:
        visit.say(f"... and {listing.left_out} younger ones (--limit)")


async def show(visit: Visit) -> None:
    portrait = await _portrait(visit)
    limited = replace(portrait, parts=portrait.parts[: visit.arguments.limit])
    left_out = len(portrait.parts) - len(limited.parts)
    events = limited.events()
    visit.write(
        Section("header", [_header_cells(portrait, visit.now_ms)], is_fields=True),
        Section("participant", [_part_cells(part, portrait) for part in limited.parts], "PARTICIPANTS"),
    )
    if left_out:
        visit.say(f"... and {left_out} more (--limit)")
    visit.say("", "TIMELINE", *draw(limited, visit.now_ms), "")
    begun_ms = portrait.header.created_ms
    _write_events(visit, events, begun_ms)
    if not visit.arguments.follow:
        visit.say(f"collected: {portrait.collection_text(visit.now_ms)}")
        return
    told = portrait.events()
    follower = Follower(visit.records, visit.pace, told, lambda event: _write_events(visit, [event], begun_ms))
    await follower.follow(portrait.header.txn_id)


async def why(visit: Visit) -> None:
    name = visit.arguments.segment
    found = await horizon.look(visit.records, name)
    if found.holder is None and not found.segment.is_known:
        raise TxnNotFound(f"why: nothing here tells of a segment {name!r}: check its name")
    visit.write(Section("horizon", [_horizon_cells(found, visit)], is_fields=True))
    if found.verdict is Verdict.HELD:
        visit.say(*horizon.UNCOUNTED)
    limit = visit.arguments.limit
    rows = [_writer_cells(writer) for writer in islice(found.behind, limit)]
    visit.write(Section("behind", rows, "OTHER TRANSACTIONS WITH WRITES TO BE CARRIED OUT"))
    if len(found.behind) > limit:
        visit.say(f"... and {len(found.behind) - limit} more (--limit)")


async def plan_abort(visit: Visit) -> None:
    """Says what an abort would do; refuses where it cannot be."""
    aborting.check_kind(visit.records.layout.kind is RecordsKind.TIDEMARK)
    portrait = await _portrait(visit)
    aborting.check_open(portrait.header)
    visit.say(aborting.summary(portrait))
    visit.write(Section("effect", aborting.effects(portrait), "WHAT IT DOES"))


async def abort(visit: Visit) -> None:
    txn_id = visit.records.layout.check_id(visit.arguments.id)
    await aborting.abort(visit.records.store, txn_id, visit.pace)
    if visit.arguments.json:
        visit.write(Section("aborted", [{"transaction": txn_id}]))
    else:
        visit.say(f"{txn_id} is aborted; its participants carry that out by themselves")


async def stats(visit: Visit) -> None:
    now_ms, limit = visit.now_ms, visit.arguments.limit
    found = await statistics.gather(visit.records, now_ms, visit.arguments.stuck_after)
    oldest = found.oldest_open
    figures: dict[str, object] = {state.value.lower(): found.states[state] for state in EVERY_STATE}
    figures |= {
        "oldest_open": None if oldest is None else oldest.txn_id,
        "oldest_open_age_ms": None if oldest is None else Duration(now_ms - oldest.created_ms),
        "oldest_open_owner": None if oldest is None else oldest.owner,
        "open_past_deadline": found.expired,
        "decided_not_applied": found.unapplied,
        "operations": found.operations,
        "operations_without_header": found.orphans,
        "aborted_records": found.aborted.total(),
        "stuck_participants": len(found.stuck),
    }
    visit.write(Section("stats", [figures], is_fields=True))
    visit.write(
        Section(
            "owner",
            [{"owner": owner, "open": count} for owner, count in found.owners.most_common(limit)],
            "OPEN TRANSACTIONS BY OWNER",
        ),
        Section(
            "aborted",
            [{"segment": segment, "records": count} for segment, count in found.aborted.most_common(limit)],
            "ABORTED TRANSACTIONS THAT SEGMENTS REMEMBER",
        ),
        Section("stuck", await _stuck_cells(visit, found), "PARTICIPANTS THAT DO NOT CARRY OUT WHAT IS DECIDED"),
    )


async def _portrait(visit: Visit) -> Portrait:
    txn_id = visit.records.layout.check_id(visit.arguments.id)
    portrait = await read(visit.records, txn_id)
    if portrait is None:
        raise TxnNotFound(f"there is no transaction {txn_id}: it was never begun, or ended long ago")
    return portrait


def _header_cells(portrait: Portrait, now_ms: int) -> dict[str, object]:
    header = portrait.header
    collectable = portrait.collectable_ms
    return {
        "transaction": header.txn_id,
        "state": header.state.value,
        "decided_by": None if header.cause is None else header.cause.value,
        "owner": header.owner,
        "age_ms": Duration(now_ms - header.created_ms),
        "created_ms": Moment(header.created_ms),
        "deadline_ms": Moment(header.deadline_ms),
        "left_ms": Duration(header.deadline_ms - now_ms) if header.is_open else None,
        "finalized_ms": None if header.finalized_ms is None else Moment(header.finalized_ms),
        "collectable_ms": None if collectable is None else Moment(collectable),
        "operations": sum(part.operations for part in portrait.parts),
    }


def _part_cells(part: Part, portrait: Portrait) -> dict[str, object]:
    begun_ms, applied, pending = portrait.header.created_ms, part.applied, part.pending
    facts = portrait.segments.get(part.participant.segment)
    state = "undecided" if portrait.header.is_open else "to be applied" if pending is not None else "applied"
    first, last = (None, None) if pending is None else (pending.first, pending.last)
    return {
        "segment": part.participant.segment,
        "subscription": part.participant.subscription,
        "operations": part.operations,
        "from": None if first is None else str(first),
        "to": None if last is None else str(last),
        "first_after_ms": None if part.first_ms is None else Duration(part.first_ms - begun_ms),
        "last_after_ms": None if part.last_ms is None else Duration(part.last_ms - begun_ms),
        "outcome": state,
        "applied_after_ms": None if applied is None else Duration(applied.applied_ms - begun_ms),
        "applied_by": None if applied is None else applied.broker,
        "segment_owner": None if facts is None else facts.owner,
    }


def _write_events(visit: Visit, events: Sequence[Event], begun_ms: int) -> None:
    if visit.arguments.json:
        visit.write(Section("event", [_event_cells(event, begun_ms) for event in events]))
        return
    for event in events:
        after = f"+{duration_text(event.at_ms - begun_ms)}"
        whose = "" if event.participant is None else str(event.participant)
        text = f"{moment_text(event.at_ms)}  {after:>8}  {event.kind.value:15}  {whose}  {event.detail}"
        visit.say(text.rstrip())


def _event_cells(event: Event, begun_ms: int) -> dict[str, object]:
    participant = event.participant
    return {
        "event": event.kind.value,
        "at_ms": event.at_ms,
        "after_ms": event.at_ms - begun_ms,
        "segment": None if participant is None else participant.segment,
        "subscription": None if participant is None else participant.subscription,
        "detail": event.detail or None,
    }


def _horizon_cells(found: Horizon, visit: Visit) -> dict[str, object]:
    holder, now_ms, facts = found.holder, visit.now_ms, found.segment
    header: TransactionRow | None = None if holder is None else holder.header
    first = None if holder is None else holder.writes.first
    knows_owners = visit.records.layout.kind is RecordsKind.TIDEMARK
    cells: dict[str, object] = {
        "segment": facts.name,
        "segment_state": facts.state,
        "segment_owner": facts.owner,
        "term": facts.term,
        "horizon": found.verdict.value,
    }
    if found.readable is not None:
        cells["readable_to"] = str(found.readable)
    if holder is not None:
        cells |= {
            "transaction": holder.txn_id,
            "state": "gone: aborted" if header is None else decided_text(header),
            "owner": None if header is None else header.owner,
            "begun_ms": None if header is None else Moment(header.created_ms),
            "first_entry": None if first is None else str(first),
            "since_ms": Moment(holder.writes.first_ms),
            "for_ms": Duration(now_ms - holder.writes.first_ms),
            "deadline_ms": None if header is None else Moment(header.deadline_ms),
            "entries": holder.writes.entries,
        }
    if found.verdict is Verdict.HELD:
        cells |= {
            "transactions_behind": found.transactions_behind,
            "transactional_entries_behind": found.entries_behind,
        }
    return cells | {"freed_by": horizon.explanation(found, now_ms, knows_owners=knows_owners)}


def _writer_cells(writer: Writer) -> dict[str, object]:
    header = writer.header
    return {
        "transaction": writer.txn_id,
        "state": "gone: aborted" if header is None else header.state.value,
        "owner": None if header is None else header.owner,
        "first_entry": None if writer.writes.first is None else str(writer.writes.first),
        "entries": writer.writes.entries,
        "since_ms": Moment(writer.writes.first_ms),
    }


async def _stuck_cells(visit: Visit, found: statistics.Statistics) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for participant, since_ms in sorted(found.stuck.items(), key=lambda item: item[1])[: visit.arguments.limit]:
        facts = await visit.records.segment(participant.segment)
        rows.append(
            {
                "segment": participant.segment,
                "subscription": participant.subscription,
                "operations": found.stuck_operations[participant],
                "decided_ms": Moment(since_ms),
                "for_ms": Duration(visit.now_ms - since_ms),
                "segment_owner": facts.owner,
            }
        )
    return rows


def _without(row: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in names}
