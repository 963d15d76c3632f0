"""Taking notes while things happen, so that they survive whoever takes them: a line when a call begins, one at its end.

In one process the ticks are a counter, and the lines are kept. A process that may be killed tells each line at once,
with the machine's monotonic time as its tick, which is the same for all processes; `lines` are then what was heard of
it. `history_of` puts the lines together: a call whose end nobody told is one with an unknown outcome.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from txn.model.header import TxnState
from txn.model.position import Position
from txn_histories.history import History
from txn_histories.notes import (
    Acknowledging,
    AckOf,
    Begun,
    Delivery,
    Ending,
    Fate,
    Looked,
    Nacked,
    Send,
    Sighting,
    Trimming,
)

Line = dict[str, Any]


class Recorder:
    """One process's notes."""

    def __init__(
        self,
        name: str = "",
        *,
        tick: Callable[[], int] | None = None,
        tell: Callable[[Line], None] | None = None,
    ) -> None:
        self.lines: list[Line] = []
        self._name = name
        self._numbers = itertools.count(1)
        self.tick = tick or itertools.count(1).__next__
        self._tell = tell or self.lines.append

    def new_name(self, kind: str) -> str:
        """A name that nothing else has."""
        return f"{kind}{self._name}-{next(self._numbers)}"

    def note(self, what: str, **fields: object) -> None:
        """Something that has no end of its own."""
        self._tell({"what": what, "tick": self.tick(), **fields})

    def call(self, what: str, **fields: object) -> Call:
        """A call begins."""
        call = Call(self, self.new_name("call"))
        self._tell({"what": what, "call": call.name, "tick": self.tick(), **fields})
        return call

    def open(
        self,
        segment: str,
        subscription: str | None = None,
        *,
        start: Position | None = None,
        term: int | None = None,
        is_shared: bool = False,
        is_final: bool = False,
        is_keyed: bool = False,
    ) -> str:
        """Somebody begins to read; the name of what he will be shown."""
        name = self.new_name("sighting")
        self.note(
            "open",
            sighting=name,
            segment=segment,
            subscription=subscription,
            start=None if start is None else str(start),
            term=term,
            is_shared=is_shared,
            is_final=is_final,
            is_keyed=is_keyed,
        )
        return name

    def shown(self, sighting: str, since: int, entries: Iterable[tuple[Position, str, tuple[int, ...]]]) -> None:
        """He was shown entries, but for some messages of a batch, by a call that began at that tick."""
        shown = [[str(position), message, list(skipped)] for position, message, skipped in entries]
        self.note("shown", sighting=sighting, since=since, entries=shown)


class Call:
    """A call that is under way."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.name = name
        self._recorder = recorder

    def end(self, **fields: object) -> None:
        """It was answered."""
        self._recorder.note("end", call=self.name, **fields)


def telling(name: str) -> Recorder:
    """The recorder of a process that may be killed: it writes its notes to its standard output."""
    return Recorder(name, tick=time.monotonic_ns, tell=lambda line: print(json.dumps(line), flush=True))


def written(acks: Iterable[AckOf]) -> list[list[object]]:
    """Acknowledgements as they stand in a line."""
    return [[str(each.position), each.is_cumulative, list(each.batch), str(each.since)] for each in acks]


def history_of(lines: Sequence[Line]) -> History:
    """The history that lines tell, of however many processes."""
    return _Reading(lines).run()


class _Reading:
    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = sorted(lines, key=lambda line: int(line["tick"]))
        self._ends = {line["call"]: line for line in lines if line["what"] == "end"}
        self._sightings: dict[str, Sighting] = {}
        self._history = History()

    def run(self) -> History:
        for line in self._lines:
            self._take(line)
        return self._history

    def _take(self, line: Line) -> None:
        history, tick, end = self._history, line["tick"], self._ends.get(line.get("call"), {})
        returned = end.get("tick")
        match line["what"]:
            case "begun":
                history.begun.append(Begun(line["txn"], tick, line.get("deadline_ms")))
            case "ending":
                history.endings.append(
                    Ending(
                        line["txn"],
                        TxnState(line["wanted"]),
                        tick,
                        returned,
                        TxnState(end["outcome"]) if end.get("outcome") else None,
                        bool(end.get("is_deadline")),
                        line.get("at_ms"),
                        end.get("at_ms"),
                    )
                )
            case "look" if end.get("state"):
                history.looks.append(Looked(line["txn"], TxnState(end["state"]), tick, end["tick"]))
            case "send":
                history.sends.append(_send(line, end))
            case "ack":
                acks = tuple(
                    AckOf(Position.parse(at), bool(flag), tuple(batch), Position.parse(since))
                    for at, flag, batch, since in line["acks"]
                )
                fate = Fate(end.get("fate", Fate.UNKNOWN.value))
                history.acks.append(
                    Acknowledging(line["segment"], line["subscription"], acks, line["txn"], tick, returned, fate)
                )
            case "nack":
                positions = tuple(map(Position.parse, line["positions"]))
                history.nacks.append(Nacked(line["segment"], line["subscription"], positions, tick))
            case "trim":
                history.trimmings.append(Trimming(line["segment"], Position.parse(line["before"]), tick))
            case "open":
                self._open(line)
            case "shown":
                deliveries = self._sightings[line["sighting"]].deliveries
                for position, message, skipped in line["entries"]:
                    at = Position.parse(position)
                    deliveries.append(Delivery(at, message, line["since"], tick, tuple(skipped)))

    def _open(self, line: Line) -> None:
        sighting = Sighting(
            line["sighting"],
            line["segment"],
            line["subscription"],
            line["tick"],
            Position.parse(line["start"]) if line["start"] else Position(0, 0),
            line["term"],
            line["is_shared"],
            line["is_final"],
            line.get("is_keyed", False),
        )
        self._sightings[sighting.name] = sighting
        self._history.sightings.append(sighting)


def _send(line: Line, end: Line) -> Send:
    position = end.get("position")
    return Send(
        line["message"],
        line["segment"],
        line["producer"],
        line["sequence_id"],
        line["txn"],
        line["tick"],
        end.get("tick"),
        Fate(end.get("fate", Fate.UNKNOWN.value)),
        Position.parse(position) if position else None,
        bool(end.get("is_duplicate")),
        line.get("count", 1),
    )
