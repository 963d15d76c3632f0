"""Random histories of an implementation without faults: small, in memory, every call taking effect at one moment."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace

from txn.model.header import TxnState
from txn.model.position import Position
from txn_histories.history import History
from txn_histories.notes import Acknowledging, AckOf, Begun, Delivery, Ending, Fate, Nacked, Send, Sighting

SEGMENTS = ("s", "t")
LEDGER = 1
STEPS = 60


@dataclass
class Log:
    """A segment: its entries, and what its one subscription has acknowledged."""

    name: str
    entries: list[Send] = field(default_factory=list)
    acked: dict[int, str | None] = field(default_factory=dict)
    consumer: Sighting | None = None
    handed_out: set[int] = field(default_factory=set)


class Perfect:
    """Takes random steps and notes them; answers come late, and some never."""

    def __init__(self, seed: int) -> None:
        self.history = History()
        self._random = random.Random(seed)
        self._ticks = itertools.count(1)
        self._names = itertools.count()
        self._logs = [Log(name) for name in SEGMENTS]
        self._states: dict[str, TxnState] = {}

    def run(self) -> History:
        """Some steps, and the end."""
        steps = (self._begin, self._send, self._send, self._send, self._read, self._consume, self._ack, self._end)
        for _ in range(STEPS):
            self._random.choice(steps)()
        for txn in self._open:
            self._decide(txn, self._random.choice([TxnState.COMMITTED, TxnState.ABORTED]))
        for log in self._logs:
            self._attach(log, is_final=True)
            self._consume_from(log)
            self._read_from(log, len(log.entries), is_final=True)
            end = Position(LEDGER, len(log.entries))
            self.history.rest.ends[log.name] = (end, end)
        self.history.rest = replace(self.history.rest, states=dict(self._states))
        return self.history

    def _tick(self) -> int:
        return next(self._ticks)

    @property
    def _open(self) -> list[str]:
        return [txn for txn, state in self._states.items() if state is TxnState.OPEN]

    def _any_txn(self) -> str | None:
        return self._random.choice([None, *self._open])

    def _begin(self) -> None:
        txn = f"x{next(self._names)}"
        self._states[txn] = TxnState.OPEN
        self.history.begun.append(Begun(txn, self._tick(), 1))

    def _send(self) -> None:
        log, txn = self._random.choice(self._logs), self._any_txn()
        number = len(log.entries)
        fate = self._random.choice([Fate.DONE, Fate.DONE, Fate.DONE, Fate.UNKNOWN, Fate.REFUSED])
        invoked = self._tick()
        position = Position(LEDGER, number) if fate is Fate.DONE else None
        name = f"m{next(self._names)}"
        returned = None if fate is Fate.UNKNOWN else self._tick()
        send = Send(name, log.name, "p", number, txn, invoked, returned, fate, position)
        if fate is not Fate.REFUSED and (fate is Fate.DONE or self._random.random() < 0.5):
            log.entries.append(send)
        self.history.sends.append(send)
        if fate is Fate.UNKNOWN and log.entries[-1:] == [send] and self._random.random() < 0.5:
            told = replace(
                send, invoked=self._tick(), returned=self._tick(), fate=Fate.DONE,
                position=Position(LEDGER, number), is_duplicate=True,
            )  # fmt: skip
            self.history.sends.append(told)

    def _end(self) -> None:
        if self._open:
            wanted = self._random.choice([TxnState.COMMITTED, TxnState.COMMITTED, TxnState.ABORTED])
            self._decide(self._random.choice(self._open), wanted)

    def _decide(self, txn: str, wanted: TxnState) -> None:
        invoked = self._tick()
        self._states[txn] = wanted
        if wanted is TxnState.ABORTED:
            for log in self._logs:
                freed = {number for number, holder in log.acked.items() if holder == txn}
                log.handed_out -= freed
                log.acked = {number: holder for number, holder in log.acked.items() if number not in freed}
        is_told = self._random.random() < 0.7
        self.history.endings.append(
            Ending(txn, wanted, invoked, self._tick() if is_told else None, wanted if is_told else None, False, 0, 0)
        )

    # -- who reads

    def _horizon(self, log: Log) -> int:
        pinned = (number for number, send in enumerate(log.entries) if send.txn in self._open)
        return next(pinned, len(log.entries))

    def _is_visible(self, send: Send) -> bool:
        return send.txn is None or self._states[send.txn] is TxnState.COMMITTED

    def _read(self) -> None:
        log = self._random.choice(self._logs)
        self._read_from(log, self._random.randint(0, self._horizon(log)))

    def _read_from(self, log: Log, bound: int, is_final: bool = False) -> None:
        reader = Sighting(f"r{next(self._names)}", log.name, None, self._tick(), is_final=is_final)
        for number, send in enumerate(log.entries[:bound]):
            if self._is_visible(send):
                reader.deliveries.append(Delivery(Position(LEDGER, number), send.message, self._tick(), self._tick()))
        self.history.sightings.append(reader)

    def _attach(self, log: Log, is_final: bool = False) -> None:
        log.consumer = Sighting(f"c{next(self._names)}", log.name, "sub", self._tick(), is_final=is_final)
        log.handed_out.clear()
        self.history.sightings.append(log.consumer)

    def _consume(self) -> None:
        log = self._random.choice(self._logs)
        if log.consumer is None or self._random.random() < 0.2:
            self._attach(log)
        elif self._random.random() < 0.2:
            given_back = {number for number in log.handed_out if number not in log.acked}
            log.handed_out -= given_back
            positions = tuple(Position(LEDGER, number) for number in sorted(given_back))
            self.history.nacks.append(Nacked(log.name, "sub", positions, self._tick()))
        self._consume_from(log)

    def _consume_from(self, log: Log) -> None:
        assert log.consumer is not None
        for number, send in enumerate(log.entries[: self._horizon(log)]):
            if self._is_visible(send) and number not in log.acked and number not in log.handed_out:
                log.handed_out.add(number)
                delivery = Delivery(Position(LEDGER, number), send.message, self._tick(), self._tick())
                log.consumer.deliveries.append(delivery)

    def _ack(self) -> None:
        log = self._random.choice(self._logs)
        if not log.handed_out:
            return
        number, txn = self._random.choice(sorted(log.handed_out)), self._any_txn()
        is_refused = number in log.acked
        if not is_refused:
            log.acked[number] = txn
        fate = Fate.REFUSED if is_refused else self._random.choice([Fate.DONE, Fate.DONE, Fate.UNKNOWN])
        invoked = self._tick()
        returned = None if fate is Fate.UNKNOWN else self._tick()
        acks = (AckOf(Position(LEDGER, number)),)
        self.history.acks.append(Acknowledging(log.name, "sub", acks, txn, invoked, returned, fate))


def perfect(seed: int) -> History:
    """The history of a seed, anew at each call."""
    return Perfect(seed).run()
