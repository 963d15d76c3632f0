"""Whether what was seen may have been seen, and whether readers saw everything, once and in order."""

from __future__ import annotations

from collections.abc import Mapping

from txn.model.header import TxnState
from txn_histories.history import History
from txn_histories.notes import Delivery, Sighting
from txn_histories.outcomes import Outcome
from txn_histories.violations import Findings, Lie


def judge_readings(history: History, outcomes: Mapping[str, Outcome], findings: Findings) -> None:
    """Everything that anybody was shown."""
    for sighting in history.sightings:
        findings.counts["readings"] += 1
        findings.counts["deliveries"] += len(sighting.deliveries)
        for delivery in sighting.deliveries:
            _judge_delivery(history, outcomes, sighting, delivery, findings)
        if sighting.subscription is None:
            _judge_reader(history, sighting, findings)


def _judge_delivery(
    history: History, outcomes: Mapping[str, Outcome], sighting: Sighting, delivery: Delivery, findings: Findings
) -> None:
    """It was sent, to this segment, and its transaction was committed by then."""
    message = history.messages.get(delivery.message)
    if message is None or message.segment != sighting.segment:
        findings.add(Lie.INVENTED, str(sighting), f"{delivery}: {message}")
        return
    if sighting.term is not None and delivery.position.ledger > sighting.term:
        findings.add(Lie.INVENTED, str(sighting), f"{delivery} was written by an owner after term {sighting.term}")
    if message.txn is None:
        return
    outcome = outcomes[message.txn]
    if outcome.state is TxnState.ABORTED:
        findings.add(Lie.ABORTED_READ, str(sighting), f"{delivery} of {outcome}")
    elif delivery.tick < outcome.open_until:
        findings.add(Lie.DIRTY_READ, str(sighting), f"{delivery} of {outcome}, open until {outcome.open_until}")


def _judge_reader(history: History, sighting: Sighting, findings: Findings) -> None:
    """One behind the other, and nothing left out up to the last; a final one goes to the end."""
    at = [delivery.position for delivery in sighting.deliveries]
    for before, delivery in zip(at, sighting.deliveries[1:], strict=False):
        if delivery.position == before:
            findings.add(Lie.REPEATED, str(sighting), f"{delivery}")
        elif delivery.position < before:
            findings.add(Lie.MISORDERED, str(sighting), f"{delivery} behind {before}")
    shown = set(at)
    for position, name in history.visible.get(sighting.segment, {}).items():
        if position < sighting.start or position in shown:
            continue
        behind = [delivery for delivery in sighting.deliveries if delivery.position > position]
        # It may have been given up before the reader came there; what came behind it tells until when.
        until = behind[0].tick if behind else None
        if until is not None and history.may_be_trimmed(sighting.segment, position, until):
            continue
        if until is not None or sighting.is_final:
            findings.add(Lie.SKIPPED, str(sighting), f"{name!r} at {position}")
