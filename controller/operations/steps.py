"""What is still to be done of an operation: a pure function of its record and of the topic's.

    kind           preparing                                   the point of no return, and behind it
    create         segments with cursors, subscriptions        the topic's record; over
    split, merge   new segments with cursors                   decided: old segments sealed; the topic's record; over
    prune          -                                           the topic's record; data, loads; over
    delete         -                                           the topic's record; data, subscriptions, loads; over
    subscribe      cursors                                     the subscription's record; over
    unsubscribe    -                                           the subscription's record; cursors; over

What has to become invisible goes first, what is to become visible comes last. An operation that is given up removes
what it has made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from controller.layout import Layout, LayoutError, Segment, SegmentName, TopicName, TopicRecord
from controller.operations.operation import Kind, Operation, Phase
from controller.operations.work import data_name


@dataclass(frozen=True, slots=True)
class Children:
    """These segments exist, with a cursor at the beginning for each subscription."""

    names: tuple[str, ...]
    subscriptions: tuple[str, ...] | None = None
    """None: those that are recorded."""


@dataclass(frozen=True, slots=True)
class Decide:
    """From here on it is brought to its end."""


@dataclass(frozen=True, slots=True)
class Seal:
    """These segments take no more entries."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """The topic's record has the layout that the operation makes; the end, unless something is to follow."""

    is_end: bool


@dataclass(frozen=True, slots=True)
class Unrecord:
    """The topic's record is gone."""


@dataclass(frozen=True, slots=True)
class Data:
    """These segments are on their way out."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reports:
    """What was reported of these segments is gone."""

    segments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """These subscriptions are recorded."""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The record of these subscriptions is gone, with their consumers; None: of all of them."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Cursors:
    """Each of these segments has a cursor of the subscription."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Uncursor:
    """None of these segments has."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The operation's record is gone."""


Step = (
    Children | Decide | Seal | Commit | Unrecord | Data | Reports | Record | Unsubscribe | Cursors | Uncursor | Finish
)


def steps(topic: TopicName, operation: Operation, record: TopicRecord | None) -> tuple[Step, ...]:
    """All that is still to be done, in this order."""
    layout = None if record is None else record.layout
    match operation.kind:
        case Kind.CREATE:
            return _create(topic, operation, layout)
        case Kind.SPLIT | Kind.MERGE:
            return _succeed(topic, operation, layout)
        case Kind.PRUNE:
            done = layout is None or is_done(operation, layout)
            visible: tuple[Step, ...] = () if done else (Commit(is_end=False),)
            return (*visible, Data(operation.names), Reports(operation.segments), Finish())
        case Kind.DELETE:
            visible = () if layout is None else (Unrecord(),)
            gone = Data(operation.names), Unsubscribe(None), Reports(operation.segments)
            return (*visible, *gone, Finish())
        case Kind.SUBSCRIBE:
            names = () if layout is None else _names(topic, layout.segments.values())
            if operation.phase is Phase.GIVEN_UP or layout is None:
                return (Uncursor(names), Finish())
            return (Cursors(names), Record(), Finish())
        case Kind.UNSUBSCRIBE:
            names = () if layout is None else _names(topic, layout.segments.values())
            return (Unsubscribe(tuple(operation.subscriptions)), Uncursor(names), Finish())


def late_steps(
    topic: TopicName, operation: Operation, record: TopicRecord | None, subscriptions: Collection[str]
) -> tuple[Step, ...] | None:
    """The same of one that somebody finds who leads already, and found none when he began; None: as of any other.

    Only a store without `transact` lets that happen. Whoever has written it down is deposed, or has done it long ago
    and wrote it twice. Nobody waits for it, and what it is about may be there anew: a deletion of what is there comes
    to nothing, and so does the making of a subscription.
    """
    match operation.kind:
        case Kind.DELETE if record is not None:
            return (Finish(),)
        case Kind.SUBSCRIBE | Kind.UNSUBSCRIBE if operation.subscription in subscriptions:
            return (Finish(),)
        case Kind.SUBSCRIBE:
            return steps(topic, operation.entered(Phase.GIVEN_UP), record)
    return None


def _create(topic: TopicName, operation: Operation, layout: Layout | None) -> tuple[Step, ...]:
    assert operation.record is not None, "a creation has the record of the topic"
    if layout is not None:
        return (Finish(),)
    names = _names(topic, operation.record.layout.segments.values())
    subscriptions = tuple(operation.subscriptions)
    if operation.phase is Phase.GIVEN_UP:
        return (Data(names), Unsubscribe(subscriptions), Finish())
    return (Children(names, subscriptions), Record(), Commit(is_end=True))


def _succeed(topic: TopicName, operation: Operation, layout: Layout | None) -> tuple[Step, ...]:
    """A split or a merge."""
    if layout is not None and is_done(operation, layout):
        return (Finish(),)
    parents = _parents(topic, operation, layout)
    if operation.phase is Phase.GIVEN_UP or parents is None:
        return (Data(operation.names), Finish())
    if operation.phase is Phase.DECIDED:
        return (Seal(parents), Commit(is_end=True))
    return (Children(operation.names), Decide(), Seal(parents), Commit(is_end=True))


def is_done(operation: Operation, layout: Layout) -> bool:
    """Whether the layout has, or had, what the operation makes: no number is given twice."""
    if operation.kind is Kind.PRUNE:
        return not any(each in layout.segments for each in operation.segments)
    return all(SegmentName.parse(name).segment_id < layout.next_segment_id for name in operation.names)


def _parents(topic: TopicName, operation: Operation, layout: Layout | None) -> tuple[str, ...] | None:
    """What is to be sealed; None if somebody has changed the topic's record by force, so that it cannot be done."""
    try:
        if layout is None or born(topic, layout, operation.changed(layout)) != operation.names:
            return None
    except LayoutError:
        return None
    return _names(topic, (layout.segments[each] for each in operation.segments))


def born(topic: TopicName, before: Layout, after: Layout) -> tuple[str, ...]:
    """The names of the segments that are in one layout and were not in another."""
    return _names(topic, (each for each in after.segments.values() if each.segment_id not in before.segments))


def _names(topic: TopicName, segments: Iterable[Segment]) -> tuple[str, ...]:
    return tuple(data_name(topic, segment) for segment in segments)
