"""Histories that are good by their making: a store of a few lines executes what clients ask, at random, by a seed.

Answers get lost. What was asked for then may be done later, or never; sessions end by themselves, several at once.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from metastore.interface import BatchKind, Change, ChangeKind, Record, Version, WatchBatch
from shard_model.order import ENCODERS
from watch_contract.reconstruction import conditions_hold, removed_by
from watch_contract.sightings import Opened, Scope, Sighting, Told
from watch_contract.tokens import with_offsets
from watch_contract.truth import Held
from watch_contract.verdict import History
from watch_contract.writes import Answer, EndSession, Fate, Operation, Put, Remove, RemoveRange, Write

ORDER = ENCODERS["hierarchical"]
TOKEN = base64.urlsafe_b64encode(bytes(21)).decode()
KEYS = [f"/k{number}" for number in range(4)]


@dataclass(eq=False)
class Request:
    """What a client has put together: one write for each call, all at one offset."""

    client: str
    invoked: int
    operations: Sequence[Operation]
    answers: list[Answer] | None = None
    """None: it was not executed."""
    is_refused: bool = False


@dataclass
class Shard:
    """One, with what its witness is told."""

    tick: int = 0
    writes: list[Write] = field(default_factory=list)
    state: dict[str, Held] = field(default_factory=dict)
    events: list[Opened | Told] = field(default_factory=list)
    offset: int = 0
    version_id: int = 0

    def __post_init__(self) -> None:
        self._tell(())

    def next_tick(self) -> int:
        self.tick += 1
        return self.tick

    def execute(self, request: Request) -> None:
        """At the next offset; a single call that expects another version is refused."""
        whole = Write(0, "", 0, tuple(request.operations), 0, None, Fate.UNKNOWN)
        request.is_refused = not conditions_hold(whole, self.state)
        request.answers = []
        if request.is_refused:
            return
        before = {**self.state}
        for each in request.operations:
            request.answers.append(self._apply(each))
        self._tell_since(before)

    def end_sessions(self, sessions: Sequence[str]) -> None:
        """At the next offset."""
        before = {**self.state}
        for each in sessions:
            self._apply(EndSession(each))
        self._tell_since(before)

    def _apply(self, operation: Operation) -> Answer:
        if isinstance(operation, Put):
            there = self.state.get(operation.key)
            self.version_id += 1
            modifications = 0 if there is None else there.version.modifications + 1
            version = Version(self.version_id, modifications, 0, self.offset)
            self.state[operation.key] = Held(operation.value, version, (), operation.session)
            return version
        gone = [*removed_by(operation, self.state, ORDER)]
        for key in gone:
            del self.state[key]
        return bool(gone) if isinstance(operation, Remove) else None

    def _tell_since(self, before: Mapping[str, Held]) -> None:
        changes = []
        for key in sorted(before.keys() | self.state.keys()):
            was, held = before.get(key), self.state.get(key)
            if was is not held:
                kind = ChangeKind.DELETED if held is None else ChangeKind.MODIFIED
                record = None if held is None else Record(key, held.value, held.version)
                kind = ChangeKind.CREATED if was is None else kind
                changes.append(Change(kind, key, record, None, 0, self.offset, self.offset))
        self.offset += 1
        if changes:
            self._tell(tuple(changes))

    def _tell(self, changes: tuple[Change, ...]) -> None:
        kind = BatchKind.CHANGES if changes else BatchKind.PROGRESS
        token = with_offsets(TOKEN, [self.offset])
        self.events.append(Told(self.next_tick(), WatchBatch(kind, changes=changes, token=token)))

    def note(self, request: Request, *, is_answered: bool) -> None:
        """The client has heard what came of it, or gives up."""
        answers = request.answers or []
        fate = Fate.UNKNOWN if not is_answered else Fate.REFUSED if request.is_refused else Fate.DONE
        for place, operation in enumerate(request.operations):
            returned = self.next_tick() if is_answered else None
            known = (answers[place],) if fate is Fate.DONE else ()
            number = len(self.writes)
            self.writes.append(Write(number, request.client, 0, (operation,), request.invoked, returned, fate, known))

    def note_lost(self, client: str, session: str, opened: int) -> None:
        """The session ended, or ends, at a time that nobody knows."""
        number = len(self.writes)
        self.writes.append(Write(number, client, 0, (EndSession(session),), opened, None, Fate.UNKNOWN))

    def history(self, *, is_told_late: bool = False) -> History:
        """All of it; the witness hears of it as it happens, or all of it at the end."""
        late = self.next_tick() + 1
        told = [replace(each, tick=late + place) if is_told_late else each for place, each in enumerate(self.events)]
        final = [Record(key, held.value, held.version) for key, held in self.state.items()]
        witness = Sighting("the witness", Scope(), [Opened(0, None, has_snapshot=False), *told])
        return History(1, ORDER, self.writes, witness, final=final)


class Clients:
    """Some clients at once."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.shard = Shard()
        self._under_way: dict[str, Request | None] = {f"w{number}": None for number in range(3)}
        self._late: list[Request] = []
        """Given up, and not done yet."""
        self._sessions: dict[str, tuple[str, int]] = {}
        self._values = 0

    def run(self, steps: int) -> History:
        """What is noted of so many steps."""
        for _ in range(steps):
            self._random.choice([self._go_on, self._go_on, self._go_on, self._do_late, self._end_sessions])()
        for request in self._under_way.values():
            if request is not None:
                self.shard.note(request, is_answered=False)
        return self.shard.history(is_told_late=self._random.random() < 0.5)

    def _go_on(self) -> None:
        """A client asks, or what it has asked for is done, or it is answered, or it gives up."""
        client = self._random.choice([*self._under_way])
        request = self._under_way[client]
        if request is None:
            self._under_way[client] = Request(client, self.shard.next_tick(), self._asked(client))
        elif request.answers is None and self._random.random() < 0.8:
            self.shard.execute(request)
        elif request.answers is None or self._random.random() < 0.3:
            self.shard.note(request, is_answered=False)
            self._late += [request] if request.answers is None else []
            self._under_way[client] = None
        else:
            self.shard.note(request, is_answered=True)
            self._under_way[client] = None

    def _do_late(self) -> None:
        if self._late:
            self.shard.execute(self._late.pop(self._random.randrange(len(self._late))))

    def _end_sessions(self) -> None:
        """Some of those there are, by themselves."""
        clients = [each for each in self._sessions if self._random.random() < 0.3]
        if clients:
            self.shard.end_sessions([self._sessions[each][0] for each in clients])
        for client in clients:
            self.shard.note_lost(client, *self._sessions.pop(client))

    def _asked(self, client: str) -> list[Operation]:
        if self._random.random() < 0.15:
            first, second = sorted(self._random.sample([*KEYS, "/k9"], 2))
            return [RemoveRange(first, second)]
        keys = self._random.sample(KEYS, self._random.choice([1, 1, 2, 3]))
        are_put = [self._random.random() < 0.5 for _ in keys]
        return [
            self._put(client, key) if is_put else self._remove(key, len(keys))
            for key, is_put in zip(keys, are_put, strict=True)
        ]

    def _put(self, client: str, key: str) -> Put:
        self._values += 1
        session = None
        if self._random.random() < 0.4:
            session, _ = self._sessions.setdefault(client, (f"session {self._values}", self.shard.next_tick()))
        return Put(key, b"%d" % self._values, None, (), session)

    def _remove(self, key: str, together: int) -> Remove:
        held = self.shard.state.get(key)
        is_conditional = held is not None and together == 1 and self._random.random() < 0.5
        return Remove(key, held.version.version_id if held is not None and is_conditional else None)
