"""Whether what was sent is there: once, where it was said to be, in order, all of a transaction or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from txn.model.header import TxnState
from txn.model.position import Position
from txn_histories.history import History, Message
from txn_histories.notes import START
from txn_histories.outcomes import Outcome
from txn_histories.violations import Findings, Lie


class WriteJudge:
    """All segments of a run."""

    def __init__(self, history: History, outcomes: Mapping[str, Outcome], findings: Findings) -> None:
        self._history = history
        self._outcomes = outcomes
        self._findings = findings
        self._messages = history.messages

    def run(self) -> None:
        for message in self._messages.values():
            self._judge_place(message)
        self._judge_positions()
        self._judge_numbers()
        self._judge_presence()
        self._judge_order()
        self._findings.counts["messages"] += len(self._messages)

    def _judge_place(self, message: Message) -> None:
        """One place, the one that was told; none if it was refused."""
        if len(message.seen) > 1:
            self._findings.add(Lie.DUPLICATED, str(message), f"seen at {sorted(message.seen)}")
        elif len(message.told | set(message.seen)) > 1:
            self._findings.add(Lie.MOVED, str(message), f"told {message.told}, seen at {set(message.seen)}")
        if message.is_refused and message.seen:
            self._findings.add(Lie.REFUSED_WRITE, str(message), f"{message.sends}")
        first = min(send.invoked for send in message.sends)
        for delivery in message.seen.values():
            if delivery.tick < first:
                self._findings.add(Lie.INVENTED, str(message), f"sent at tick {first}, and before: {delivery}")

    def _judge_positions(self) -> None:
        """No position had two entries."""
        at: defaultdict[tuple[str, Position], set[str]] = defaultdict(set)
        for message in self._messages.values():
            for position in message.told:
                at[message.segment, position].add(message.name)
        for sighting in self._history.sightings:
            for delivery in sighting.deliveries:
                at[sighting.segment, delivery.position].add(delivery.message)
        for (segment, position), names in at.items():
            if len(names) > 1:
                self._findings.add(Lie.POSITION_REUSED, f"{position} of {segment}", f"{sorted(names)}")

    def _judge_numbers(self) -> None:
        """No number of a producer is there twice."""
        shown: defaultdict[tuple[str, str, int], set[str]] = defaultdict(set)
        for segment, found in self._history.visible.items():
            for name in found.values():
                message = self._messages.get(name)
                if message is not None and message.segment == segment and message.number[1]:
                    shown[message.number].add(name)
        for number, names in shown.items():
            if len(names) > 1:
                self._findings.add(Lie.DUPLICATED, f"number {number}", f"{sorted(names)}")

    def _judge_presence(self) -> None:
        """What was accepted and not aborted is there in the end, and whatever was seen is as well."""
        missing: defaultdict[str | None, list[Message]] = defaultdict(list)
        present: set[str] = set()
        for message in self._messages.values():
            if message.segment not in self._history.read_to_the_end:
                continue
            if self._is_there(message):
                present.add(message.txn or "")
            elif (message.is_accepted or message.seen) and self._is_due(message):
                missing[message.txn].append(message)
        for txn, messages in missing.items():
            is_torn = txn is not None and txn in present
            for message in messages:
                lie = Lie.TORN if is_torn else Lie.LOST_WRITE
                self._findings.add(lie, str(message), f"it is not there in the end: {message.sends}")

    def _is_there(self, message: Message) -> bool:
        shown = self._history.visible.get(message.segment, {})
        return any(shown.get(position) == message.name for position in message.seen)

    def _is_due(self, message: Message) -> bool:
        """Whether it has to be there in the end."""
        if not self._history.is_kept(message.segment, message.position or START):
            return False
        if message.txn is None:
            return True
        return self._outcomes[message.txn].state is TxnState.COMMITTED

    def _judge_order(self) -> None:
        by_producer: defaultdict[tuple[str, str], list[Message]] = defaultdict(list)
        by_segment: defaultdict[str, list[Message]] = defaultdict(list)
        for message in self._messages.values():
            if message.position is not None and message.placing:
                by_segment[message.segment].append(message)
                if message.number[1]:
                    by_producer[message.number[:2]].append(message)
        for messages in by_producer.values():
            # A producer's calls are in order by their beginnings: it need not wait for the answers.
            ends = [(max(send.invoked for send in each.placing), each) for each in messages]
            self._judge_line(messages, ends)
        for messages in by_segment.values():
            self._judge_line(messages, [(each.answered, each) for each in messages if each.answered is not None])

    def _judge_line(self, messages: Iterable[Message], ends: list[tuple[int, Message]]) -> None:
        """Whatever ended before another one began is before it."""
        ends.sort(key=lambda each: each[0], reverse=True)
        before: Message | None = None
        for message in sorted(messages, key=_began):
            while ends and ends[-1][0] < _began(message):
                ended = ends.pop()[1]
                if before is None or _place(ended) > _place(before):
                    before = ended
            if before is not None and _place(before) > _place(message):
                self._findings.add(Lie.MISORDERED, str(message), f"sent behind {before}")


def _began(message: Message) -> int:
    return min(send.invoked for send in message.placing)


def _place(message: Message) -> Position:
    assert message.position is not None, "only what has a place is compared"
    return message.position
