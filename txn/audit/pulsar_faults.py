"""The same of Pulsar's records: a clean store of them, and one fault for each rule about a point in time.

A store dates what is put into it by itself, and of Pulsar's operations nothing else says when they were written: so the
moment of the audit lies `LATER_MS` behind the planting.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from urllib.parse import quote_plus

from metastore.interface import MetadataStore
from txn.audit.planting import SUBSCRIPTION, Expected
from txn.audit.views import pulsar

LATER_MS = 1_000_000
WRITTEN_S = LATER_MS // 1000
"""How long before the audit operations are written, in seconds, as all times are here."""
LONG_S = 500
"""Longer than any step takes."""
TIMEOUT_S = 3600
IDS_GIVEN = 1_000_000
CLEAN = 4


class PulsarPlanter:
    """Puts records as brokers of Pulsar do. What is planted in different realms has nothing in common."""

    def __init__(self, store: MetadataStore, as_of_ms: int, elsewhere: Callable[[str], str], realm: int = 0) -> None:
        self.elsewhere = elsewhere
        """A partition on another shard than this one's."""
        self.realm = realm
        self._store = store
        self._as_of_ms = as_of_ms
        self._numbers = count(1)

    def next_id(self) -> str:
        """An id that was not used yet."""
        return f"{self.realm}_{next(self._numbers)}"

    def segment(self, topic: str = "orders") -> str:
        """A segment of a topic."""
        return f"segment://public/{self.realm or 'default'}/{topic}/0000-ffff-0"

    async def put(self, key: str, value: object, partition: str, indexes: Mapping[str, str]) -> None:
        """A record, with its entries in indexes."""
        await self._store.put(key, json.dumps(value).encode(), partition_key=partition, indexes=list(indexes.items()))

    async def header(
        self,
        state: str,
        age_s: int,
        ended_s: int | None = None,
        *,
        txn_id: str | None = None,
        timeout_s: int = TIMEOUT_S,
        spare_indexes: Mapping[str, str] | None = None,
        is_indexed: bool = True,
    ) -> str:
        """A transaction that was begun, and ended, so long before the audit; its id."""
        txn_id = txn_id or self.next_id()
        begun_s = self._as_of_ms // 1000 - age_s
        value: dict[str, object] = {"state": state, "timeout": timeout_s, "createdAt": begun_s}
        indexes = {pulsar.BY_DEADLINE: f"{pulsar.IDS}/{(begun_s + timeout_s) * 1000:020}"}
        if ended_s is not None:
            value["finalizedAt"] = self._as_of_ms // 1000 - ended_s
            indexes = {pulsar.BY_FINAL_STATE: f"{pulsar.IDS}/{state}:{(self._as_of_ms // 1000 - ended_s) * 1000:020}"}
        indexes |= spare_indexes or {}
        await self.put(f"{pulsar.IDS}/{txn_id}", value, txn_id, indexes if is_indexed else {})
        return txn_id

    async def operation(
        self,
        txn_id: str,
        number: int = 1,
        *,
        segment: str | None = None,
        subscription: str | None = SUBSCRIPTION,
        is_cumulative: bool = False,
        partition: str | None = None,
    ) -> None:
        """An acknowledgement; a write where it has no subscription."""
        segment = segment or self.segment()
        value: dict[str, object] = {"kind": "WRITE", "segment": segment, "ledgerId": 0, "entryId": 0}
        secondary = {pulsar.OPS_BY_TXN: txn_id, pulsar.WRITES_BY_SEGMENT: quote_plus(segment)}
        if subscription is not None:
            value |= {"kind": "ACK", "subscription": subscription, "ledgerId": 1, "cumulative": is_cumulative}
            place = f"{quote_plus(segment)}:{quote_plus(subscription)}"
            secondary = {pulsar.OPS_BY_TXN: txn_id, pulsar.ACKS_BY_SUBSCRIPTION: place}
        indexes = {name: f"{pulsar.OPERATIONS}/{each}" for name, each in secondary.items()}
        await self.put(f"{pulsar.OPERATIONS}/{txn_id}-{number:020}", value, partition or txn_id, indexes)

    async def announce(
        self, txn_id: str, decision: str, *, segment: str | None = None, subscription: str | None = None
    ) -> None:
        """What a coordinator tells a participant."""
        name = quote_plus(segment or self.segment())
        room = pulsar.EVENTS[0] if subscription is None else pulsar.EVENTS[1]
        participant = name if subscription is None else f"{name}:{quote_plus(subscription)}"
        key = f"{room}/{participant}-{next(self._numbers):020}"
        await self.put(key, {"txnId": txn_id, "decision": decision}, name, {})

    async def skip(self, txn_id: str) -> None:
        """What the segment says of an aborted transaction."""
        name = quote_plus(self.segment())
        await self.put(f"{pulsar.ABORTED}/{name}:{txn_id}", {"maxLedgerId": 5, "maxEntryId": 7}, name, {})

    async def watermark(self, entry: int, segment: str | None = None) -> None:
        """How far a segment may be read."""
        name = quote_plus(segment or self.segment())
        await self.put(f"{pulsar.WATERMARKS}/{name}", {"ledgerId": 5, "entryId": entry}, name, {})

    async def numbers(self, given: int = IDS_GIVEN) -> None:
        """How many ids the coordinator has given."""
        key = f"{pulsar.NUMBERS}/{self.realm}"
        await self.put(key, {"next": given}, key, {})

    async def plant_segment(self) -> None:
        """The segment, its subscription, and the numbers that were given."""
        ledger = f"{pulsar.LEDGERS}/public/{self.realm or 'default'}/{pulsar.SEGMENT_DOMAIN}/orders/0000-ffff-0"
        for key in (ledger, f"{ledger}/{SUBSCRIPTION}"):
            await self.put(key, {}, key, {})
        await self.watermark(9)
        await self.numbers()

    async def plant_clean(self) -> None:
        """A segment, and transactions in every state."""
        await self.plant_segment()
        for _ in range(CLEAN):
            await self.operation(await self.header("OPEN", WRITTEN_S + 1))
            decided = await self.header("COMMITTED", WRITTEN_S + 1, 1)
            await self.operation(decided)
            done = await self.header("ABORTED", WRITTEN_S + 1, WRITTEN_S)
            await self.announce(done, "ABORTED", subscription=SUBSCRIPTION)
            await self.skip(done)


PulsarFault = Callable[[PulsarPlanter], Awaitable[Sequence[Expected]]]


def _of(rule: str, txn_id: str) -> list[Expected]:
    return [Expected(rule, txn_id)]


async def _open_past_deadline(planter: PulsarPlanter) -> Sequence[Expected]:
    return _of("open-past-deadline", await planter.header("OPEN", LONG_S, timeout_s=10))


async def _header_not_collected(planter: PulsarPlanter) -> Sequence[Expected]:
    return _of("header-not-collected", await planter.header("COMMITTED", 1600, 1501))


async def _decided_before_begun(planter: PulsarPlanter) -> Sequence[Expected]:
    return _of("decided-before-begun", await planter.header("COMMITTED", LONG_S, LONG_S + 1))


async def _deadline_out_of_bounds(planter: PulsarPlanter) -> Sequence[Expected]:
    return _of("deadline-out-of-bounds", await planter.header("OPEN", LONG_S, timeout_s=TIMEOUT_S + 1))


async def _header_changed_again(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("OPEN", LONG_S)
    for state in ("ABORTED", "COMMITTED"):
        await planter.header(state, LONG_S, LONG_S - 1, txn_id=txn_id)
    return _of("header-changed-again", txn_id)


async def _transaction_on_two_shards(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("OPEN", WRITTEN_S + 1)
    await planter.operation(txn_id, partition=planter.elsewhere(txn_id))
    return _of("transaction-on-two-shards", txn_id)


async def _id_never_given(planter: PulsarPlanter) -> Sequence[Expected]:
    number = int(planter.next_id().partition("_")[2])
    txn_id = f"{planter.realm}_{IDS_GIVEN + number}"
    return _of("id-never-given", await planter.header("OPEN", LONG_S, txn_id=txn_id))


async def _unreadable(planter: PulsarPlanter) -> Sequence[Expected]:
    keys = [f"{pulsar.IDS}/{planter.next_id()}", f"{pulsar.OPERATIONS}/{planter.next_id()}-{1:020}"]
    for key in keys:
        await planter.put(key, {}, key, {})
    return [Expected("unreadable-pulsar-record", key=key) for key in keys]


async def _operations_without_header(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = planter.next_id()
    await planter.operation(txn_id)
    return [Expected("operations-without-header", txn_id, planter.segment(), SUBSCRIPTION)]


async def _outcome_not_applied(planter: PulsarPlanter) -> Sequence[Expected]:
    # Behind what is written now, and not by more than clocks may differ.
    txn_id = await planter.header("COMMITTED", WRITTEN_S + 1, WRITTEN_S - 4)
    await planter.operation(txn_id)
    await planter.announce(txn_id, "COMMITTED", subscription=SUBSCRIPTION)
    return [Expected("outcome-not-applied", txn_id, planter.segment(), SUBSCRIPTION)]


async def _operation_outside_lifetime(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("OPEN", LONG_S)
    await planter.operation(txn_id)
    return [Expected("operation-outside-lifetime", txn_id, planter.segment(), SUBSCRIPTION)]


async def _operations_missing(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("OPEN", WRITTEN_S + 1)
    for number in (1, 3):
        await planter.operation(txn_id, number)
    return _of("operations-missing", txn_id)


async def _participant_without_segment(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id, segment = await planter.header("OPEN", WRITTEN_S + 1), planter.segment("gone")
    await planter.operation(txn_id, segment=segment)
    return [Expected("participant-without-segment", txn_id, segment, SUBSCRIPTION)]


async def _acknowledgement_without_subscription(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("OPEN", WRITTEN_S + 1)
    await planter.operation(txn_id, subscription="gone")
    return [Expected("acknowledgement-without-subscription", txn_id, planter.segment(), "gone")]


async def _horizon_held(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("OPEN", WRITTEN_S + 1)
    await planter.operation(txn_id, subscription=None)
    return [Expected("horizon-held", txn_id, planter.segment())]


async def _two_cumulative(planter: PulsarPlanter) -> Sequence[Expected]:
    ids = [await planter.header("OPEN", WRITTEN_S + 1) for _ in range(2)]
    for txn_id in ids:
        await planter.operation(txn_id, subscription=SUBSCRIPTION, is_cumulative=True)
    return [Expected("two-cumulative-acknowledgements", min(ids), planter.segment(), SUBSCRIPTION)]


async def _committed_but_skipped(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("COMMITTED", LONG_S, LONG_S - 1)
    await planter.skip(txn_id)
    return [Expected("committed-but-skipped", txn_id, planter.segment())]


async def _skipped_while_open(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("OPEN", LONG_S)
    await planter.skip(txn_id)
    return [Expected("skipped-while-open", txn_id, planter.segment())]


async def _record_not_indexed(planter: PulsarPlanter) -> Sequence[Expected]:
    return _of("record-not-indexed", await planter.header("OPEN", LONG_S, is_indexed=False))


async def _index_leads_nowhere(planter: PulsarPlanter) -> Sequence[Expected]:
    spare = {pulsar.BY_DEADLINE: f"{pulsar.IDS}/{7:020}"}
    txn_id = await planter.header("ABORTED", LONG_S, LONG_S - 1, spare_indexes=spare)
    return [Expected("index-leads-nowhere", key=f"{pulsar.IDS}/{txn_id}")]


async def _decision_not_announced(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("COMMITTED", WRITTEN_S + 1, LONG_S)
    await planter.operation(txn_id)
    rules = ("decision-not-announced", "outcome-not-applied")
    return [Expected(rule, txn_id, planter.segment(), SUBSCRIPTION) for rule in rules]


async def _announcement_contradicts(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("COMMITTED", LONG_S, LONG_S - 1)
    await planter.announce(txn_id, "ABORTED")
    return [Expected("announcement-contradicts-decision", txn_id, planter.segment())]


async def _announcement_left_behind(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = planter.next_id()
    await planter.announce(txn_id, "COMMITTED")
    return [Expected("announcement-left-behind", txn_id, planter.segment())]


async def _announcements_repeated(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id = await planter.header("COMMITTED", LONG_S, LONG_S - 1)
    for _ in range(11):
        await planter.announce(txn_id, "COMMITTED")
    return [Expected("announcements-repeated", txn_id, planter.segment())]


async def _topic_left_behind(planter: PulsarPlanter) -> Sequence[Expected]:
    txn_id, gone = await planter.header("COMMITTED", LONG_S, LONG_S - 1), planter.segment("gone")
    await planter.announce(txn_id, "COMMITTED", segment=gone)
    await planter.watermark(3, gone)
    return [Expected("topic-left-behind", txn_id, gone), Expected("topic-left-behind", None, gone)]


PULSAR_FAULTS: Mapping[str, PulsarFault] = {
    "open-past-deadline": _open_past_deadline,
    "header-not-collected": _header_not_collected,
    "decided-before-begun": _decided_before_begun,
    "deadline-out-of-bounds": _deadline_out_of_bounds,
    "header-changed-again": _header_changed_again,
    "transaction-on-two-shards": _transaction_on_two_shards,
    "id-never-given": _id_never_given,
    "unreadable-pulsar-record": _unreadable,
    "operations-without-header": _operations_without_header,
    "outcome-not-applied": _outcome_not_applied,
    "operation-outside-lifetime": _operation_outside_lifetime,
    "operations-missing": _operations_missing,
    "participant-without-segment": _participant_without_segment,
    "acknowledgement-without-subscription": _acknowledgement_without_subscription,
    "horizon-held": _horizon_held,
    "two-cumulative-acknowledgements": _two_cumulative,
    "committed-but-skipped": _committed_but_skipped,
    "skipped-while-open": _skipped_while_open,
    "record-not-indexed": _record_not_indexed,
    "index-leads-nowhere": _index_leads_nowhere,
    "decision-not-announced": _decision_not_announced,
    "announcement-contradicts-decision": _announcement_contradicts,
    "announcement-left-behind": _announcement_left_behind,
    "announcements-repeated": _announcements_repeated,
    "topic-left-behind": _topic_left_behind,
}
"""By the name of the rule that each is meant for."""
PULSAR_IMPLIED: Mapping[str, frozenset[str]] = {"decision-not-announced": frozenset({"outcome-not-applied"})}
"""Which other rules find a rule's fault as well, because it cannot be without theirs."""
