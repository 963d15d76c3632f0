"""What befalls a run, by its seed: the same troubles in the same order, each after so many more messages. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

BROKERS = 3
MEMBERS = 3
RING = 1 << 16
MESSAGES_BETWEEN_MAX = 60


class Trouble(Enum):
    """What can happen."""

    KILL = "a broker is killed, and started again when others have all it had"
    KILL_BRIEFLY = "a broker is killed, and started again at once"
    FREEZE = "a broker is frozen for longer than its session"
    STOP = "a broker is asked to stop, and started again"
    SPLIT = "a segment is split by hand"
    MERGE = "neighbours, two or more of them, are merged by hand"
    LEAVE = "a member leaves, and another one comes"
    DIE = "a member, or one of a group, goes without a word, and comes back by its name"
    REOPEN = "named producers are given up, and opened again where they were"
    RESTART_READER = "the reader goes on from its checkpoint, as text"
    SEEK = "a subscription is put to the beginning"
    FENCE = "somebody takes the exclusive right to produce from whoever has it"
    KILL_CLAIMANT = "a process that has taken the exclusive right to produce is killed while it sends"
    RECLASS = "a topic has not the properties any more for which it is consumed, and then it has them again"
    EXTRA_TOPIC = "there is another topic in the namespace"
    KILL_STORE = "the metadata service is killed, and started again at once"


FAULTS = (Trouble.KILL, Trouble.KILL_BRIEFLY, Trouble.FREEZE, Trouble.STOP)
USE = {
    Trouble.SPLIT: 6,
    Trouble.MERGE: 4,
    Trouble.LEAVE: 2,
    Trouble.DIE: 2,
    Trouble.FENCE: 2,
    Trouble.KILL_CLAIMANT: 1,
    Trouble.RECLASS: 1,
    Trouble.REOPEN: 2,
    Trouble.RESTART_READER: 1,
    Trouble.SEEK: 1,
    Trouble.EXTRA_TOPIC: 1,
}
"""How often each of these comes in a run."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One trouble."""

    trouble: Trouble
    after: int
    """So many confirmed messages after the one before."""
    which: int
    """Of the brokers, the members, or the places of the ring; of what there is."""


@dataclass(frozen=True)
class WholePlan:
    """A run."""

    log: str
    """Where brokers have the entries of segments: `local` or `metastore`."""
    seed: int
    use: Mapping[Trouble, int] = field(default_factory=lambda: USE)
    """What is made of it, and how often."""
    has_faults: bool = True
    """Whether brokers are killed, frozen and stopped, too."""

    @property
    def is_eager(self) -> bool:
        """Whether topics split and merge by themselves as well."""
        return self.seed % 2 == 1

    @property
    def retention_minutes(self) -> int:
        """How long drained segments are kept."""
        return 0 if self.seed % 3 == 2 else -1

    @cached_property
    def troubles(self) -> tuple[Planned, ...]:
        """All that happens; the last one befalls a broker, unless none does."""
        choice = random.Random(f"{self.log}-{self.seed}")
        kinds = [kind for kind, times in self.use.items() for _ in range(times)]
        if self.has_faults:
            kinds += [choice.choice([Trouble.KILL, Trouble.FREEZE]), choice.choice(FAULTS)]
        choice.shuffle(kinds)
        if self.has_faults:
            kinds.append(Trouble.KILL if Trouble.FREEZE in kinds else Trouble.FREEZE)
        return tuple(Planned(kind, choice.randint(1, MESSAGES_BETWEEN_MAX), choice.randrange(RING)) for kind in kinds)

    def __str__(self) -> str:
        eager = "by themselves as well" if self.is_eager else "by hand"
        return f"seed {self.seed}, {self.log} logs, splits {eager}, drained segments kept {self.retention_minutes} min"
