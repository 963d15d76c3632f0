"""Whether acknowledgements took effect: the committed for good, the aborted not at all, and none of two that conflict.

What is acknowledged is counted in units: a message of an entry. A call acknowledges some; it *binds* them from its
answer on if it is durable, and for as long as its transaction may still be committed. A cumulative one is about what
its consumer was shown: what lies before the first of that was acknowledged by somebody else, or is to come.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from txn.model.header import TxnState
from txn.model.position import Position
from txn_histories.history import History
from txn_histories.notes import START, Acknowledging, AckOf, Delivery, Fate, Sighting
from txn_histories.outcomes import Outcome
from txn_histories.violations import Findings, Lie

Unit = tuple[Position, int]


@dataclass
class Cover:
    """What acknowledges an entry: single units of it by each call."""

    calls: list[tuple[Acknowledging, AckOf, frozenset[int]]] = field(default_factory=list)


class AckJudge:
    """One subscription."""

    def __init__(
        self, history: History, key: tuple[str, str], outcomes: Mapping[str, Outcome], findings: Findings
    ) -> None:
        self._history = history
        self._segment, self._subscription = key
        self._outcomes = outcomes
        self._findings = findings
        self._visible = history.visible.get(self._segment, {})
        self._acks = [each for each in history.acks if (each.segment, each.subscription) == key]
        self._sightings = [each for each in history.sightings if (each.segment, each.subscription) == key]
        self._covers: defaultdict[Position, Cover] = defaultdict(Cover)
        possible = [each for each in self._acks if each.fate is not Fate.REFUSED]
        self._cumulative = [(each, ack) for each in possible for ack in each.acks if ack.is_cumulative]

    def run(self) -> None:
        self._cover()
        self._findings.counts["acknowledgements"] += len(self._acks)
        for sighting in self._sightings:
            self._judge_redeliveries(sighting)
            self._judge_repetitions(sighting)
            if not sighting.is_shared:
                self._judge_order(sighting)
        finals = [each for each in self._sightings if each.is_final]
        if finals:
            self._judge_last(finals)
        self._judge_conflicts()

    # -- who acknowledges what

    def _cover(self) -> None:
        for call in self._acks:
            if call.fate is not Fate.REFUSED:
                for ack in call.acks:
                    self._covers[ack.position].calls.append((call, ack, self._units(ack)))

    def _units(self, ack: AckOf) -> frozenset[int]:
        """The messages of the entry itself that it acknowledges."""
        if not ack.batch:
            return frozenset(range(self._count(ack.position)))
        return frozenset(range(max(ack.batch) + 1)) if ack.is_cumulative else frozenset(ack.batch)

    def _count(self, position: Position) -> int:
        return self._history.counts.get((self._segment, position), 1)

    def _covering(self, position: Position) -> Iterator[tuple[Acknowledging, frozenset[int]]]:
        """All calls that acknowledge something of an entry."""
        for call, _, units in self._covers[position].calls if position in self._covers else ():
            yield call, units
        whole = frozenset(range(self._count(position)))
        for call, ack in self._cumulative:
            if ack.since <= position < ack.position:
                yield call, whole

    def _state(self, call: Acknowledging) -> TxnState:
        return TxnState.COMMITTED if call.txn is None else self._outcomes[call.txn].state

    def _may_count(self, call: Acknowledging) -> bool:
        return call.txn is None or self._outcomes[call.txn].may_be_committed

    def _is_whole(self, position: Position, units: frozenset[int]) -> bool:
        return len(units) >= self._count(position)

    # -- what came again

    def _judge_redeliveries(self, sighting: Sighting) -> None:
        for delivery in sighting.deliveries:
            done: frozenset[int] = frozenset()
            held: frozenset[int] = frozenset()
            why: list[Acknowledging] = []
            for call, units in self._covering(delivery.position):
                if call.fate is not Fate.DONE or call.returned is None or call.returned >= delivery.since:
                    continue
                if self._state(call) is TxnState.COMMITTED:
                    done |= units
                    why.append(call)
                elif call.txn is not None and delivery.tick < self._outcomes[call.txn].open_until:
                    held |= units
                    why.append(call)
            if self._is_whole(delivery.position, done):
                self._findings.add(Lie.ACK_REDELIVERED, str(sighting), f"{delivery} after {why}")
            elif self._is_whole(delivery.position, done | held):
                self._findings.add(Lie.PENDING_REDELIVERED, str(sighting), f"{delivery} after {why}")

    def _judge_repetitions(self, sighting: Sighting) -> None:
        """To one consumer an entry comes again only if he gave it back, or his acknowledgement came to nothing."""
        last: dict[Position, int] = {}
        for delivery in sighting.deliveries:
            before = last.get(delivery.position)
            if before is not None and not self._may_repeat(delivery.position, delivery.tick, sighting):
                self._findings.add(Lie.REPEATED, str(sighting), f"{delivery}, which he had at tick {before}")
            last[delivery.position] = delivery.tick

    def _may_repeat(self, position: Position, before: int, sighting: Sighting) -> bool:
        """Where an order is kept what comes again comes with everything behind it; and an only consumer is given all
        that is not acknowledged once more when a transaction has let something go.
        """
        given_back = [
            back
            for each in self._history.nacks
            if (each.segment, each.subscription) == (self._segment, self._subscription) and each.invoked < before
            for back in each.positions
        ]
        let_go = [
            ack.position
            for call in self._acks
            if call.txn is not None and call.invoked < before and self._state(call) is not TxnState.COMMITTED
            for ack in call.acks
        ]
        if let_go and not sighting.is_shared:
            return True
        given_back += let_go
        is_single = sighting.is_shared and not sighting.is_keyed
        if position in given_back or (given_back and not is_single and min(given_back) < position):
            return True
        return any(
            call.invoked < before and (call.is_too_late or self._state(call) is not TxnState.COMMITTED)
            for call, _ in self._covering(position)
        )

    def _judge_order(self, sighting: Sighting) -> None:
        """To an only consumer entries come in order, but for those that an open transaction had held."""
        furthest = START
        seen: set[Position] = set()
        for delivery in sighting.deliveries:
            is_late = delivery.position < furthest and delivery.position not in seen
            if is_late and not self._may_repeat(delivery.position, delivery.tick, sighting):
                self._findings.add(Lie.MISORDERED, str(sighting), f"{delivery} behind {furthest}")
            seen.add(delivery.position)
            furthest = max(furthest, delivery.position)

    # -- what came in the end

    def _judge_last(self, finals: Sequence[Sighting]) -> None:
        """Whatever is not acknowledged is delivered in the end, to one of those who are there."""
        shown = Counter(position for final in finals for position in {each.position for each in final.deliveries})
        for position in (each for each, times in shown.items() if times > 1):
            self._findings.add(Lie.REPEATED, self._name, f"{position} is delivered to several in the end")
        start = self._history.starts.get((self._segment, self._subscription), START)
        for position, name in self._visible.items():
            if position < start or position in shown:
                continue
            units: frozenset[int] = frozenset()
            is_aborted = False
            for call, some in self._covering(position):
                if self._may_count(call):
                    units |= some
                else:
                    is_aborted = True
            if not self._is_whole(position, units):
                lie = Lie.ABORTED_ACK_LOST if is_aborted else Lie.UNDELIVERED
                self._findings.add(lie, self._name, f"{name!r} at {position}, acknowledged: {sorted(units)}")
        for delivery in (delivery for final in finals for delivery in final.deliveries):
            self._judge_messages(delivery)

    def _judge_messages(self, delivery: Delivery) -> None:
        """In the end a delivery skips just those messages of a batch that are acknowledged."""
        if self._count(delivery.position) == 1:
            return
        calls = [*self._covering(delivery.position)]
        possible = {unit for call, units in calls if self._may_count(call) for unit in units}
        certain = {
            unit
            for call, units in calls
            if call.fate is Fate.DONE and self._state(call) is TxnState.COMMITTED
            for unit in units
        }
        if not certain <= {*delivery.skipped}:
            self._findings.add(Lie.ACK_REDELIVERED, self._name, f"{delivery}; acknowledged: {sorted(certain)}")
        if not {*delivery.skipped} <= possible:
            self._findings.add(Lie.UNDELIVERED, self._name, f"{delivery}; acknowledged: {sorted(possible)}")

    # -- what cannot both be

    def _judge_conflicts(self) -> None:
        """Of two calls that want the same message only one gets it, in whatever form they say so."""
        for position, cover in self._covers.items():
            single = [
                (call, units)
                for call, ack, units in cover.calls
                if not ack.is_cumulative and not self._has_already(call, position, units)
            ]
            for (one, some), (other, more) in combinations(single, 2):
                if some & more:
                    self._judge_pair(one, other, f"messages {sorted(some & more)} of {position}")
            for call, ack in self._cumulative:
                for one, some in single:
                    if one.txn is not None and (ack.position > position or some & self._reached(ack, position)):
                        self._judge_pair(call, one, f"{position}, up to {ack.position}")
        for (one, ack), (other, another) in combinations(self._cumulative, 2):
            self._judge_pair(one, other, f"up to {ack.position} and up to {another.position}")

    def _has_already(self, call: Acknowledging, position: Position, units: frozenset[int]) -> bool:
        """Whether a transaction has said before that it wants everything up to there: repeating it asks for nothing."""
        return any(
            earlier.txn == call.txn is not None
            and earlier.invoked < call.invoked
            and (ack.position > position or units <= self._reached(ack, position))
            for earlier, ack in self._cumulative
        )

    def _reached(self, ack: AckOf, position: Position) -> frozenset[int]:
        return self._units(ack) if ack.position == position else frozenset()

    @property
    def _name(self) -> str:
        return f"{self._subscription} of {self._segment}"

    def _judge_pair(self, one: Acknowledging, other: Acknowledging, what: str) -> None:
        """They have something in common, and are not one transaction's."""
        if one.fate is other.fate is Fate.DONE and (one.txn is None or one.txn != other.txn):
            late = self._comes_too_late(one, other) or self._comes_too_late(other, one)
            if late or self._hold_both(one, other):
                self._findings.add(Lie.CONFLICTING_ACKS, self._name, f"{what}: {one} and {other}")

    def _hold_both(self, one: Acknowledging, other: Acknowledging) -> bool:
        """Whether both were done while a transaction certainly had its part, or are both for good."""
        if one.txn is None and other.txn is None:
            return False
        are_single = not self._is_cumulative(one) and not self._is_cumulative(other)
        are_bound = one.txn is not None and other.txn is not None
        if are_single and are_bound and self._state(one) is self._state(other) is TxnState.COMMITTED:
            return True
        return self._is_within(one, other) and self._is_within(other, one)

    def _is_within(self, one: Acknowledging, other: Acknowledging) -> bool:
        """Whether one was done before the other's transaction had ended; what is plain lasts, once it is done."""
        if other.txn is None:
            return other.invoked > (one.returned or 0)
        return one.returned is not None and one.returned < self._outcomes[other.txn].open_until

    def _comes_too_late(self, first: Acknowledging, late: Acknowledging) -> bool:
        """Whether a transaction got single entries that had been acknowledged before it asked."""
        if late.txn is None or self._is_cumulative(late) or self._state(first) is not TxnState.COMMITTED:
            return False
        return first.returned is not None and first.returned < late.invoked

    @staticmethod
    def _is_cumulative(call: Acknowledging) -> bool:
        return any(ack.is_cumulative for ack in call.acks)


def judge_acks(history: History, outcomes: Mapping[str, Outcome], findings: Findings) -> None:
    """All subscriptions that anybody used."""
    keys = {(each.segment, each.subscription) for each in history.acks}
    keys |= {(each.segment, each.subscription) for each in history.sightings if each.subscription is not None}
    for key in sorted(keys):
        AckJudge(history, key, outcomes, findings).run()
