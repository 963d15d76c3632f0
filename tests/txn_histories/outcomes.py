"""What became of each transaction, and whether everybody was told so."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from txn.model.header import TxnState
from txn_histories.history import History
from txn_histories.notes import START, Ending, Looked
from txn_histories.violations import Findings, Lie

FOR_EVER = 1 << 62
DECIDED = (TxnState.COMMITTED, TxnState.ABORTED)


@dataclass
class Outcome:
    """A transaction: what was asked and told of it."""

    txn: str
    deadline_ms: int | None = None
    endings: list[Ending] = field(default_factory=list)
    looks: list[Looked] = field(default_factory=list)
    last: TxnState | None = None
    """What its header says in the end, if it is there."""
    is_seen: bool = False
    """Something of it was shown in the end."""
    is_missed: bool = False
    """Something of it was to be shown in the end if it was committed, and was not."""

    @property
    def told(self) -> dict[str, TxnState]:
        """Who was told which decision."""
        found = {f"{each.wanted.value} of tick {each.invoked}": each.outcome for each in self.endings}
        found |= {f"look of tick {each.invoked}": each.state for each in self.looks}
        found["header in the end"] = self.last
        return {who: state for who, state in found.items() if state in DECIDED}

    @property
    def commits(self) -> list[Ending]:
        return [each for each in self.endings if each.wanted is TxnState.COMMITTED]

    @property
    def state(self) -> TxnState:
        """The decision. Where nobody was told, what is there in the end tells: one entry is proof."""
        known = [*self.told.values()]
        if known:
            return known[0]
        if self.commits and self.is_seen:
            return TxnState.COMMITTED
        return self.last or TxnState.ABORTED

    @property
    def may_be_committed(self) -> bool:
        """Whether nothing that is known speaks against it."""
        is_in_doubt = not self.told and bool(self.commits) and not self.is_missed
        return self.state is TxnState.COMMITTED or is_in_doubt

    @property
    def open_until(self) -> int:
        """Until this tick it was certainly open."""
        if self.state is TxnState.OPEN:
            return FOR_EVER
        seen = [each.invoked for each in self.looks if each.state is TxnState.OPEN]
        asked = [each for each in self.endings if each.wanted is self.state]
        if self.state is TxnState.ABORTED:
            # From its deadline on it may have been aborted before anybody asked.
            asked = [each for each in asked if self._is_before_deadline(each)]
        return max([*seen, *([min(each.invoked for each in asked)] if asked else [])], default=-1)

    def _is_before_deadline(self, ending: Ending) -> bool:
        return None not in (self.deadline_ms, ending.invoked_ms) and (ending.invoked_ms or 0) < (self.deadline_ms or 0)


def outcomes_of(history: History) -> dict[str, Outcome]:
    """All transactions that anybody noted."""
    found: defaultdict[str, Outcome] = defaultdict(lambda: Outcome(""))
    names = {each.txn for each in history.begun} | {each.txn for each in history.endings}
    names |= {each.txn for each in history.looks} | {*history.rest.states}
    names |= {each.txn for each in history.sends if each.txn is not None}
    names |= {each.txn for each in history.acks if each.txn is not None}
    for txn in sorted(names):
        found[txn].txn = txn
    for begun in history.begun:
        found[begun.txn].deadline_ms = begun.deadline_ms
    for ending in history.endings:
        found[ending.txn].endings.append(ending)
    for look in history.looks:
        found[look.txn].looks.append(look)
    for txn, state in history.rest.states.items():
        found[txn].last = state
    for message in history.messages.values():
        if message.txn is not None and message.segment in history.read_to_the_end:
            shown = history.visible.get(message.segment, {})
            is_seen = any(shown.get(position) == message.name for position in message.seen)
            is_kept = history.is_kept(message.segment, message.position or START)
            found[message.txn].is_seen |= is_seen
            found[message.txn].is_missed |= message.is_accepted and is_kept and not is_seen
    return dict(found)


def judge_outcomes(outcomes: dict[str, Outcome], findings: Findings) -> None:
    """Everybody was told the same, and the deadline was kept."""
    for outcome in outcomes.values():
        if len(set(outcome.told.values())) > 1:
            findings.add(Lie.OUTCOME_LIE, outcome.txn, f"{outcome.told}")
        if outcome.state is TxnState.COMMITTED and not outcome.commits:
            findings.add(Lie.OUTCOME_LIE, outcome.txn, f"nobody asked for a commit: {outcome.told}")
        _judge_open(outcome, findings)
        _judge_deadline(outcome, findings)
        findings.counts[outcome.state.value.lower()] += 1


def _judge_open(outcome: Outcome, findings: Findings) -> None:
    """What was decided is not open afterwards."""
    known = [each.returned for each in outcome.endings if each.returned is not None and each.outcome in DECIDED]
    known += [each.returned for each in outcome.looks if each.state in DECIDED]
    for look in outcome.looks:
        if look.state is TxnState.OPEN and known and look.invoked > min(known):
            findings.add(Lie.OUTCOME_LIE, outcome.txn, f"decided before tick {min(known)}, and then {look}")
    if outcome.last is TxnState.OPEN:
        findings.add(Lie.STUCK, outcome.txn, f"it is open in the end; {outcome.endings}")


def _judge_deadline(outcome: Outcome, findings: Findings) -> None:
    deadline_ms = outcome.deadline_ms
    if deadline_ms is None:
        return
    in_time = [each for each in outcome.commits if each.invoked_ms is None or each.invoked_ms < deadline_ms]
    if outcome.state is TxnState.COMMITTED and outcome.commits and not in_time:
        findings.add(Lie.DEADLINE_MISSED, outcome.txn, f"committed behind {deadline_ms}: {outcome.commits}")
    for each in outcome.endings:
        if each.is_deadline and each.returned_ms is not None and each.returned_ms < deadline_ms:
            findings.add(Lie.DEADLINE_MISSED, outcome.txn, f"told of a deadline at {deadline_ms}: {each}")
