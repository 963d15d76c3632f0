"""Ways to spoil a good history: each makes a watcher's notes say something that was not so, and says what that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from metastore.interface import BatchKind, Change, ChangeKind, Record, WatchBatch
from watch_contract.sightings import Event, Sighting, Told
from watch_contract.tokens import offsets_of, with_offsets
from watch_contract.violations import Lie

Spoil = Callable[[list[Event], int], list[Event]]
"""From a watcher's events and the place of a batch of changes to events with a lie."""


@dataclass(frozen=True)
class Way:
    """How, where it can be done, and as what it must be found."""

    spoil: Spoil
    fits: Callable[[Sequence[Event], int], bool]
    lie: Lie


def batch_at(events: Sequence[Event], place: int) -> WatchBatch:
    told = events[place]
    assert isinstance(told, Told)
    return told.batch


def with_batch(events: Sequence[Event], place: int, **changed: object) -> list[Event]:
    """The same with another batch at a place."""
    told = events[place]
    assert isinstance(told, Told)
    batch = replace(told.batch, **changed)  # type: ignore[arg-type]
    return [*events[:place], replace(told, batch=batch), *events[place + 1 :]]


def with_changes(events: Sequence[Event], place: int, changes: Sequence[Change]) -> list[Event]:
    """The same with other changes; without any, the batch is a mark of progress."""
    kind = BatchKind.CHANGES if changes else BatchKind.PROGRESS
    return with_batch(events, place, kind=kind, changes=tuple(changes))


def changed_first(**changed: object) -> Spoil:
    """Something else about the first change of a batch."""

    def spoil(events: list[Event], place: int) -> list[Event]:
        first, *others = batch_at(events, place).changes
        return with_changes(events, place, [replace(first, **changed), *others])  # type: ignore[arg-type]

    return spoil


def changed_record(which: str, **changed: object) -> Spoil:
    """Something else about a record of the first change."""

    def spoil(events: list[Event], place: int) -> list[Event]:
        record: Record = getattr(batch_at(events, place).changes[0], which)
        return changed_first(**{which: replace(record, **changed)})(events, place)  # type: ignore[arg-type]

    return spoil


def drop(events: list[Event], place: int) -> list[Event]:
    return with_changes(events, place, batch_at(events, place).changes[1:])


def drop_batch(events: list[Event], place: int) -> list[Event]:
    return [*events[:place], *events[place + 1 :]]


def tell_batch_again(events: list[Event], place: int) -> list[Event]:
    return [*events[: place + 1], events[place], *events[place + 1 :]]


def tell_change_again(events: list[Event], place: int) -> list[Event]:
    changes = batch_at(events, place).changes
    return with_changes(events, place, [changes[0], *changes])


def exchange(events: list[Event], place: int) -> list[Event]:
    """The first and the last change."""
    first, *between, last = batch_at(events, place).changes
    return with_changes(events, place, [last, *between, first])


def tear(events: list[Event], place: int) -> list[Event]:
    """The last change of a batch is of a write of several, and comes with the next one."""
    changes, following = batch_at(events, place).changes, batch_at(events, place + 1)
    later = with_changes(events, place + 1, [changes[-1], *following.changes])
    return with_changes(later, place, changes[:-1])


def token_too_far(events: list[Event], place: int) -> list[Event]:
    """The token says that what comes with the next batch has been told."""
    return with_batch(events, place, token=batch_at(events, place + 1).token)


def token_too_near(events: list[Event], place: int) -> list[Event]:
    """The token says that the last change has not been told."""
    batch = batch_at(events, place)
    assert batch.token is not None
    offsets = [min(each, batch.changes[-1].offset) for each in offsets_of(batch.token)]
    return with_batch(events, place, token=with_offsets(batch.token, offsets))


def no_token(events: list[Event], place: int) -> list[Event]:
    return with_batch(events, place, token=None)


def invent(events: list[Event], place: int) -> list[Event]:
    changes = batch_at(events, place).changes
    return with_changes(events, place, [replace(changes[0], key="/invented"), *changes])


def mistake_shard(events: list[Event], place: int) -> list[Event]:
    changes = batch_at(events, place).changes
    return with_changes(events, place, [replace(changes[0], shard=1 - changes[0].shard), *changes[1:]])


def stop(events: list[Event], place: int) -> list[Event]:
    """Starved: nothing comes any more, and nobody says so."""
    return events[:place]


# -- where


def anywhere(events: Sequence[Event], place: int) -> bool:
    return True


def has_one_change(events: Sequence[Event], place: int) -> bool:
    return len(batch_at(events, place).changes) == 1


def has_several_offsets(events: Sequence[Event], place: int) -> bool:
    changes = batch_at(events, place).changes
    return changes[0].shard == changes[-1].shard and changes[0].offset < changes[-1].offset


def ends_in_a_large_write(events: Sequence[Event], place: int) -> bool:
    changes = batch_at(events, place).changes
    is_large = len(changes) > 1 and changes[-1].offset == changes[-2].offset and changes[-1].shard == changes[-2].shard
    return is_large and is_followed(events, place)


def is_followed(events: Sequence[Event], place: int) -> bool:
    """By another batch of changes of the same watch."""
    if place + 1 >= len(events):
        return False
    following = events[place + 1]
    return isinstance(following, Told) and following.batch.kind is BatchKind.CHANGES


def stores(events: Sequence[Event], place: int) -> bool:
    return batch_at(events, place).changes[0].record is not None


def has_previous(events: Sequence[Event], place: int) -> bool:
    return batch_at(events, place).changes[0].previous is not None


def first_is(*kinds: ChangeKind) -> Callable[[Sequence[Event], int], bool]:
    return lambda events, place: batch_at(events, place).changes[0].kind in kinds


WAYS = {
    "a change is dropped": Way(drop, has_one_change, Lie.MISSING),
    "a batch is dropped, and another follows": Way(drop_batch, is_followed, Lie.MISSING),
    "a batch is told again": Way(tell_batch_again, anywhere, Lie.REPEATED),
    "a change is told again in its batch": Way(tell_change_again, anywhere, Lie.REPEATED),
    "two writes are exchanged": Way(exchange, has_several_offsets, Lie.MISORDERED),
    "a write is torn": Way(tear, ends_in_a_large_write, Lie.TORN),
    "a token is too far": Way(token_too_far, is_followed, Lie.MISSING),
    "a token is too near": Way(token_too_near, anywhere, Lie.AHEAD_OF_TOKEN),
    "a token is left out": Way(no_token, anywhere, Lie.BAD_SHAPE),
    "a change is invented": Way(invent, anywhere, Lie.INVENTED),
    "a change is told of another shard": Way(mistake_shard, has_one_change, Lie.MISSING),
    "created for modified": Way(changed_first(kind=ChangeKind.CREATED), first_is(ChangeKind.MODIFIED), Lie.WRONG_KIND),
    "modified for created": Way(
        changed_first(kind=ChangeKind.MODIFIED), first_is(ChangeKind.CREATED, ChangeKind.ENTERED), Lie.WRONG_KIND
    ),
    "left for deleted": Way(changed_first(kind=ChangeKind.LEFT), first_is(ChangeKind.DELETED), Lie.WRONG_KIND),
    "entered for created": Way(changed_first(kind=ChangeKind.ENTERED), first_is(ChangeKind.CREATED), Lie.WRONG_KIND),
    "another value": Way(changed_record("record", value=b"other"), stores, Lie.WRONG_RECORD),
    "a deletion without its record gone": Way(changed_first(record=None), stores, Lie.WRONG_RECORD),
    "another previous value": Way(changed_record("previous", value=b"other"), has_previous, Lie.WRONG_PREVIOUS),
    "no previous value": Way(changed_first(previous=None), has_previous, Lie.WRONG_PREVIOUS),
    "another time": Way(changed_first(time_ms=1), anywhere, Lie.WRONG_TIME),
    "nothing more is told": Way(stop, anywhere, Lie.STARVED),
}


def places(sighting: Sighting) -> Iterator[int]:
    """The batches of changes."""
    for place, event in enumerate(sighting.events):
        if isinstance(event, Told) and event.batch.kind is BatchKind.CHANGES:
            yield place
