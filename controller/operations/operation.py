"""What is to be done to a topic, as its operation record says it: immutable values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from controller.layout import Layout, LayoutError, TopicRecord
from controller.operations.work import Start

FORMAT = 1


class Kind(Enum):
    """What is done."""

    CREATE = "create"
    """A topic, with its first segments and subscriptions."""
    SPLIT = "split"
    MERGE = "merge"
    PRUNE = "prune"
    """Sealed segments that nobody needs any more go, and their data."""
    DELETE = "delete"
    """The topic, with all that belongs to it."""
    SUBSCRIBE = "subscribe"
    """A subscription is recorded, and has a cursor in every segment."""
    UNSUBSCRIBE = "unsubscribe"


class Phase(Enum):
    """How far it is, as far as that decides what can still become of it."""

    PREPARING = "preparing"
    """It can still be undone: nobody has noticed anything."""
    DECIDED = "decided"
    """It is brought to its end, however long that takes."""
    GIVEN_UP = "given-up"
    """It could not be done, and is undone."""


@dataclass(frozen=True)
class Operation:
    """One operation. It has all that was chosen, so that whoever goes on with it chooses the same."""

    kind: Kind
    mark: str
    """Nobody else's: by it an operation is known as one's own."""
    now_ms: int
    """The time at which what it does is said to happen."""
    segments: tuple[int, ...] = ()
    """Of a split or a merge those that are sealed, of a prune those that go, of a deletion all."""
    names: tuple[str, ...] = ()
    """The data of segments: of a split or a merge of those that are new, of a prune or a deletion of those that go."""
    subscriptions: Mapping[str, str] = field(default_factory=dict)
    """Of a creation or a (un)subscription: kinds by names."""
    start: Start = Start.EARLIEST
    """Of a subscription: where its cursors begin."""
    record: TopicRecord | None = None
    """Of a creation: the topic's record."""
    phase: Phase = Phase.PREPARING

    @property
    def subscription(self) -> str:
        """The one that it is about."""
        (name,) = self.subscriptions
        return name

    def entered(self, phase: Phase) -> Operation:
        """The operation in another phase."""
        return replace(self, phase=phase)

    def changed(self, layout: Layout) -> Layout:
        """The layout once it is done; LayoutError if it cannot be done to that one."""
        match self.kind:
            case Kind.SPLIT:
                (parent,) = self.segments
                return layout.split(parent, self.now_ms)
            case Kind.MERGE:
                return layout.merge(self.segments, self.now_ms)
            case Kind.PRUNE:
                return layout.prune(self.segments)
        raise AssertionError(f"a {self.kind.value} changes no layout")

    def encode(self) -> bytes:
        """The record's value."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "kind": self.kind.value,
            "phase": self.phase.value,
            "mark": self.mark,
            "now_ms": self.now_ms,
        }
        if self.segments:
            fields["segments"] = list(self.segments)
        if self.names:
            fields["names"] = list(self.names)
        if self.subscriptions:
            fields["subscriptions"] = dict(self.subscriptions)
            fields["start"] = self.start.value
        if self.record is not None:
            fields["topic"] = self.record.fields()
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def decode(cls, value: bytes) -> Operation:
        """Reads a record's value; LayoutError for what no operation's record says."""
        try:
            fields = json.loads(value)
            if fields["format"] != FORMAT:
                raise LayoutError(f"an operation of format {fields['format']!r}: {FORMAT} is what is known here")
            topic = fields.get("topic")
            return cls(
                Kind(fields["kind"]),
                str(fields["mark"]),
                int(fields["now_ms"]),
                _whole(fields.get("segments", ())),
                tuple(str(each) for each in fields.get("names", ())),
                {str(name): str(kind) for name, kind in fields.get("subscriptions", {}).items()},
                Start(fields.get("start", Start.EARLIEST.value)),
                None if topic is None else TopicRecord.decode(json.dumps(topic).encode()),
                Phase(fields["phase"]),
            )
        except LayoutError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise LayoutError(f"an operation's record says {value[:200]!r}: {error!r}") from error


def _whole(numbers: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(each) for each in numbers)
