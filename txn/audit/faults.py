"""One fault for each rule about a point in time, and what is to be found of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from txn.audit.planting import (
    IDS_GIVEN,
    LONG_AGO_MS,
    MARK,
    SUBSCRIPTION,
    TERM,
    Expected,
    Fault,
    Planter,
    Subject,
)
from txn.model import paths
from txn.model.header import Cause, TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import CursorState


async def _open_past_deadline(planter: Planter) -> Sequence[Expected]:
    header = replace(planter.open_header(3_700_000), timeout_ms=planter.as_of_ms - 100_000)
    txn_id = await planter.put(Subject(header))
    return [Expected("open-past-deadline", str(txn_id))]


async def _header_not_collected(planter: Planter) -> Sequence[Expected]:
    txn_id = await planter.put(Subject(planter.ended(TxnState.COMMITTED, planter.limits.collect_ms + 1_000)))
    return [Expected("header-not-collected", str(txn_id))]


async def _decided_before_begun(planter: Planter) -> Sequence[Expected]:
    header = planter.ended(TxnState.COMMITTED)
    txn_id = await planter.put(Subject(replace(header, finalized_ms=header.created_ms - 1)))
    return [Expected("decided-before-begun", str(txn_id))]


async def _deadline_out_of_bounds(planter: Planter) -> Sequence[Expected]:
    header = planter.open_header()
    txn_id = await planter.put(Subject(replace(header, timeout_ms=header.timeout_ms + 1)))
    return [Expected("deadline-out-of-bounds", str(txn_id))]


async def _header_changed_again(planter: Planter) -> Sequence[Expected]:
    header = planter.ended(TxnState.ABORTED)
    txn_id = await planter.put(Subject(header))
    changed = replace(header, state=TxnState.COMMITTED)
    partition = paths.partition(txn_id)
    await planter.store.put(
        paths.header_key(txn_id), changed.encode(), partition_key=partition, indexes=changed.indexes()
    )
    return [Expected("header-changed-again", str(txn_id))]


async def _transaction_on_two_shards(planter: Planter) -> Sequence[Expected]:
    txn_id = await planter.put(Subject(planter.open_header()))
    operation = planter.write(planter.segment(0))
    elsewhere = planter.elsewhere(paths.partition(txn_id))
    key = f"{paths.operations_path(txn_id)}/-{1:020}"
    await planter.store.put(key, operation.encode(), partition_key=elsewhere, indexes=operation.indexes())
    return [Expected("transaction-on-two-shards", str(txn_id))]


async def _id_never_given(planter: Planter) -> Sequence[Expected]:
    txn_id = TxnId(planter.realm, IDS_GIVEN + planter.next_id().sequence)
    await planter.put(Subject(planter.open_header(LONG_AGO_MS)), txn_id)
    return [Expected("id-never-given", str(txn_id))]


async def _unreadable_record(planter: Planter) -> Sequence[Expected]:
    key = paths.header_key(planter.next_id())
    await planter.store.put(key, b"no header", partition_key=key.rpartition("/")[2])
    operation = f"{paths.OPERATIONS}/md_{planter.realm}_x/-{1:020}"
    await planter.store.put(operation, b"{}")
    return [Expected("unreadable-record", key=key), Expected("unreadable-record", key=operation)]


async def _operations_without_header(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(1)
    made = [planter.write(segment, LONG_AGO_MS), planter.acknowledgement(segment, LONG_AGO_MS)]
    txn_id = str(await planter.put(Subject(None, made)))
    rule = "operations-without-header"
    return [Expected(rule, txn_id, segment), Expected(rule, txn_id, segment, SUBSCRIPTION)]


async def _outcome_not_applied(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(2)
    header = planter.ended(TxnState.COMMITTED, LONG_AGO_MS)
    txn_id = await planter.put(Subject(header, [planter.write(segment, LONG_AGO_MS + 1)]))
    return [Expected("outcome-not-applied", str(txn_id), segment)]


async def _operation_outside_lifetime(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(3)
    late = await planter.put(Subject(planter.ended(TxnState.ABORTED, 30_000), [planter.write(segment, 20_000)]))
    early = await planter.put(Subject(planter.open_header(), [planter.write(segment, 30_000)]))
    rule = "operation-outside-lifetime"
    return [Expected(rule, str(late), segment), Expected(rule, str(early), segment)]


async def _operations_missing(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(4)
    txn_id = await planter.put(Subject(planter.open_header(LONG_AGO_MS)))
    made = [await planter.put_operation(txn_id, planter.write(segment, LONG_AGO_MS)) for _ in range(3)]
    await planter.store.delete(made[1], partition_key=paths.partition(txn_id))
    return [Expected("operations-missing", str(txn_id))]


async def _position_beyond_log(planter: Planter) -> Sequence[Expected]:
    segment = planter.new_segment("short")
    await planter.put_segment(segment)
    found = []
    for place in (Position(2, 50), Position(TERM + 1, 0)):
        ack = planter.acknowledgement(segment, LONG_AGO_MS - 1, place)
        txn_id = await planter.put(Subject(planter.open_header(LONG_AGO_MS), [ack]))
        found.append(Expected("position-beyond-log", str(txn_id), segment, SUBSCRIPTION))
    return found


async def _participant_without_segment(planter: Planter) -> Sequence[Expected]:
    segment = planter.new_segment("gone")
    txn_id = await planter.put(Subject(planter.open_header(LONG_AGO_MS), [planter.write(segment, LONG_AGO_MS - 1)]))
    return [Expected("participant-without-segment", str(txn_id), segment)]


async def _acknowledgement_without_subscription(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(6)
    ack = replace(planter.acknowledgement(segment, LONG_AGO_MS - 1), subscription="gone")
    txn_id = await planter.put(Subject(planter.open_header(LONG_AGO_MS), [ack]))
    return [Expected("acknowledgement-without-subscription", str(txn_id), segment, "gone")]


async def _horizon_held(planter: Planter) -> Sequence[Expected]:
    segment, age_ms = planter.segment(7), planter.limits.hold_ms + 10_000
    txn_id = await planter.put(Subject(planter.open_header(age_ms), [planter.write(segment, age_ms - 1)]))
    return [Expected("horizon-held", str(txn_id), segment)]


async def _acknowledged_by_two(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(0)
    ack = planter.acknowledgement(segment, LONG_AGO_MS - 1)
    first = await planter.put(Subject(planter.open_header(LONG_AGO_MS), [ack]))
    second = await planter.put(Subject(planter.open_header(LONG_AGO_MS), [ack]))
    return [Expected("acknowledged-by-two", min(str(first), str(second)), segment, SUBSCRIPTION)]


async def _two_cumulative(planter: Planter) -> Sequence[Expected]:
    segment = planter.new_segment("cumulative")
    await planter.put_segment(segment)
    acks = [planter.acknowledgement(segment, LONG_AGO_MS - 1, cumulative=True) for _ in range(2)]
    ids = [await planter.put(Subject(planter.open_header(LONG_AGO_MS), [each])) for each in acks]
    return [Expected("two-cumulative-acknowledgements", min(map(str, ids)), segment, SUBSCRIPTION)]


async def _acknowledged_before_commit(planter: Planter) -> Sequence[Expected]:
    found = []
    for place in (Position(MARK.ledger, MARK.entry - 1), Position(TERM, 6)):
        segment = planter.new_segment("early")
        await planter.put_segment(segment)
        age_ms = planter.limits.hold_ms - 10_000
        ack = planter.acknowledgement(segment, age_ms - 1, place)
        txn_id = await planter.put(Subject(planter.open_header(age_ms), [ack]))
        found.append(Expected("acknowledged-before-commit", str(txn_id), segment, SUBSCRIPTION))
    return found


async def _half_applied(planter: Planter) -> Sequence[Expected]:
    late, quick = planter.segment(1), planter.segment(2)
    header = planter.ended(TxnState.COMMITTED, LONG_AGO_MS)
    txn_id = await planter.put(Subject(header, [planter.write(late, LONG_AGO_MS + 1)]))
    await planter.put_applied(txn_id, quick, None, LONG_AGO_MS - 1)
    return [Expected("half-applied", str(txn_id)), Expected("outcome-not-applied", str(txn_id), late)]


async def _applied_while_open(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(3)
    txn_id = await planter.put(Subject(planter.open_header()))
    await planter.put_applied(txn_id, segment, SUBSCRIPTION)
    return [Expected("applied-while-open", str(txn_id), segment, SUBSCRIPTION)]


async def _applied_before_decision(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(4)
    txn_id = await planter.put(Subject(planter.ended(TxnState.COMMITTED, 10_000)))
    await planter.put_applied(txn_id, segment, None, 16_000)
    return [Expected("applied-before-decision", str(txn_id), segment)]


async def _applied_without_header(planter: Planter) -> Sequence[Expected]:
    segment, txn_id = planter.segment(5), planter.next_id()
    await planter.put_applied(txn_id, segment, None, LONG_AGO_MS)
    return [Expected("applied-without-header", str(txn_id), segment)]


async def _committed_but_skipped(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(6)
    txn_id = await planter.put(Subject(planter.ended(TxnState.COMMITTED)))
    await planter.put_aborted(txn_id, segment)
    return [Expected("committed-but-skipped", str(txn_id), segment)]


async def _skipped_while_open(planter: Planter) -> Sequence[Expected]:
    segment = planter.segment(7)
    txn_id = await planter.put(Subject(planter.open_header()))
    await planter.put_aborted(txn_id, segment)
    return [Expected("skipped-while-open", str(txn_id), segment)]


async def _aborted_not_pruned(planter: Planter) -> Sequence[Expected]:
    segment, txn_id = planter.segment(0), planter.next_id()
    await planter.put_aborted(txn_id, segment, Position(1, 9))
    return [Expected("aborted-not-pruned", str(txn_id), segment)]


async def _segment_left_behind(planter: Planter) -> Sequence[Expected]:
    segment = planter.new_segment("left")
    await planter.put_segment(segment, with_descriptor=False)
    rule = "segment-left-behind"
    return [Expected(rule, None, segment), Expected(rule, None, segment, SUBSCRIPTION)]


async def _segment_on_two_shards(planter: Planter) -> Sequence[Expected]:
    segment = planter.new_segment("torn")
    await planter.put_segment(segment, log_partition=planter.elsewhere(segment))
    return [Expected("segment-on-two-shards", None, segment)]


async def _cursor_beyond_log(planter: Planter) -> Sequence[Expected]:
    segment = planter.new_segment("short")
    await planter.put_segment(segment)
    found = []
    for mark in (Position(TERM + 1, 0), Position(2, 51)):
        name = f"beyond-{mark.ledger}"
        await planter.put_cursor(segment, name, CursorState(mark))
        found.append(Expected("cursor-beyond-log", None, segment, name))
    return found


async def _record_not_indexed(planter: Planter) -> Sequence[Expected]:
    txn_id = await planter.put(Subject(planter.open_header()), indexes=())
    await planter.put_operation(txn_id, planter.write(planter.segment(1)), indexes=())
    return [Expected("record-not-indexed", str(txn_id))]


async def _index_leads_nowhere(planter: Planter) -> Sequence[Expected]:
    header = planter.ended(TxnState.COMMITTED)
    open_indexes = replace(header, state=TxnState.OPEN, finalized_ms=None, cause=None).indexes()
    txn_id = await planter.put(Subject(header), indexes=(*header.indexes(), *open_indexes))
    assert header.cause is Cause.CLIENT
    return [Expected("index-leads-nowhere", key=paths.header_key(txn_id))]


FAULTS: Mapping[str, Fault] = {
    "open-past-deadline": _open_past_deadline,
    "header-not-collected": _header_not_collected,
    "decided-before-begun": _decided_before_begun,
    "deadline-out-of-bounds": _deadline_out_of_bounds,
    "header-changed-again": _header_changed_again,
    "transaction-on-two-shards": _transaction_on_two_shards,
    "id-never-given": _id_never_given,
    "unreadable-record": _unreadable_record,
    "operations-without-header": _operations_without_header,
    "outcome-not-applied": _outcome_not_applied,
    "operation-outside-lifetime": _operation_outside_lifetime,
    "operations-missing": _operations_missing,
    "position-beyond-log": _position_beyond_log,
    "participant-without-segment": _participant_without_segment,
    "acknowledgement-without-subscription": _acknowledgement_without_subscription,
    "horizon-held": _horizon_held,
    "acknowledged-by-two": _acknowledged_by_two,
    "two-cumulative-acknowledgements": _two_cumulative,
    "acknowledged-before-commit": _acknowledged_before_commit,
    "half-applied": _half_applied,
    "applied-while-open": _applied_while_open,
    "applied-before-decision": _applied_before_decision,
    "applied-without-header": _applied_without_header,
    "committed-but-skipped": _committed_but_skipped,
    "skipped-while-open": _skipped_while_open,
    "aborted-not-pruned": _aborted_not_pruned,
    "segment-left-behind": _segment_left_behind,
    "segment-on-two-shards": _segment_on_two_shards,
    "cursor-beyond-log": _cursor_beyond_log,
    "record-not-indexed": _record_not_indexed,
    "index-leads-nowhere": _index_leads_nowhere,
}
"""By the name of the rule that each is meant for."""


IMPLIED: Mapping[str, frozenset[str]] = {"half-applied": frozenset({"outcome-not-applied"})}
"""Which other rules find a rule's fault as well, because it cannot be without theirs."""


async def plant_fault(planter: Planter, rule: str, count: int = 1) -> set[Expected]:
    """So many violations of a rule; what is to be found, which may be of other rules as well."""
    found: set[Expected] = set()
    for _ in range(count):
        found |= set(await FAULTS[rule](planter))
    return found
