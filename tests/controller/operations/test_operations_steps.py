"""What is still to be done of an operation: a pure function, whatever has happened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.layout import Layout, LayoutError, TopicName, TopicRecord
from controller.operations import Kind, Operation, Phase, Start
from controller.operations.steps import (
    Children,
    Commit,
    Cursors,
    Data,
    Decide,
    Finish,
    Record,
    Reports,
    Seal,
    Uncursor,
    Unrecord,
    Unsubscribe,
    born,
    steps,
)

TOPIC = TopicName.parse("topic://tenant/ns/my-topic")
NOW_MS = 1_700_000_000_000
TWO = Layout.initial(2, NOW_MS)
RECORD = TopicRecord(TWO, {"k": "v"})
LEFT, RIGHT = (f"{TOPIC}".replace("topic:", "segment:") + suffix for suffix in ("/0000-7fff-0", "/8000-ffff-1"))


def succession(kind: Kind, *parents: int) -> Operation:
    operation = Operation(kind, "mark", NOW_MS, parents)
    return replace(operation, names=born(TOPIC, TWO, operation.changed(TWO)))


SPLIT, MERGE = succession(Kind.SPLIT, 0), succession(Kind.MERGE, 0, 1)


def named(*descriptors: str) -> tuple[str, ...]:
    return tuple(f"segment://tenant/ns/my-topic/{each}" for each in descriptors)


def test_a_split_from_its_beginning_and_from_its_point_of_no_return() -> None:
    children = named("0000-3fff-2", "4000-7fff-3")
    assert SPLIT.names == children
    whole = (Children(children), Decide(), Seal((LEFT,)), Commit(is_end=True))
    assert steps(TOPIC, SPLIT, RECORD) == whole
    assert steps(TOPIC, SPLIT.entered(Phase.DECIDED), RECORD) == whole[2:]
    assert steps(TOPIC, SPLIT.entered(Phase.GIVEN_UP), RECORD) == (Data(children), Finish())


def test_a_merge_seals_all_its_parents() -> None:
    child = named("0000-ffff-2")
    assert steps(TOPIC, MERGE, RECORD) == (Children(child), Decide(), Seal((LEFT, RIGHT)), Commit(is_end=True))


@pytest.mark.parametrize("operation", [SPLIT, MERGE], ids=["split", "merge"])
@pytest.mark.parametrize("phase", Phase)
def test_what_is_committed_is_over_whatever_has_become_of_it_since(operation: Operation, phase: Phase) -> None:
    done = operation.changed(TWO)
    for layout in (done, done.prune([0]), done.split(done.active[0].segment_id, NOW_MS)):
        assert steps(TOPIC, operation.entered(phase), RECORD.with_layout(layout)) == (Finish(),)


def test_what_cannot_be_done_any_more_is_undone() -> None:
    """Somebody has changed the topic's record by force: no leader does."""
    for record in (None, RECORD.with_layout(replace(TWO, next_segment_id=2, segments=Layout.initial(1, 0).segments))):
        if record is not None:
            assert 1 not in record.layout.segments
        assert steps(TOPIC, MERGE, record) == (Data(MERGE.names), Finish())


def test_a_topic_is_recorded_last_and_forgotten_first() -> None:
    create = Operation(Kind.CREATE, "mark", NOW_MS, subscriptions={"s": "STREAM"}, record=RECORD)
    assert steps(TOPIC, create, None) == (Children((LEFT, RIGHT), ("s",)), Record(), Commit(is_end=True))
    assert steps(TOPIC, create, RECORD) == (Finish(),)
    gone = create.entered(Phase.GIVEN_UP)
    assert steps(TOPIC, gone, None) == (Data((LEFT, RIGHT)), Unsubscribe(("s",)), Finish())
    delete = Operation(Kind.DELETE, "mark", NOW_MS, (0, 1), (LEFT, RIGHT), phase=Phase.DECIDED)
    rest = (Data((LEFT, RIGHT)), Unsubscribe(None), Reports((0, 1)), Finish())
    assert steps(TOPIC, delete, RECORD) == (Unrecord(), *rest)
    assert steps(TOPIC, delete, None) == rest


def test_what_is_pruned_is_forgotten_first() -> None:
    layout = TWO.split(0, NOW_MS)
    prune = Operation(Kind.PRUNE, "mark", NOW_MS, (0,), (LEFT,), phase=Phase.DECIDED)
    rest = (Data((LEFT,)), Reports((0,)), Finish())
    assert steps(TOPIC, prune, RECORD.with_layout(layout)) == (Commit(is_end=False), *rest)
    assert steps(TOPIC, prune, RECORD.with_layout(prune.changed(layout))) == rest
    assert steps(TOPIC, prune, None) == rest


def test_subscriptions_are_in_every_segment_before_they_are_recorded() -> None:
    subscribe = Operation(Kind.SUBSCRIBE, "mark", NOW_MS, subscriptions={"s": "QUEUE"}, start=Start.LATEST)
    assert steps(TOPIC, subscribe, RECORD) == (Cursors((LEFT, RIGHT)), Record(), Finish())
    assert steps(TOPIC, subscribe.entered(Phase.GIVEN_UP), RECORD) == (Uncursor((LEFT, RIGHT)), Finish())
    assert steps(TOPIC, subscribe, None) == (Uncursor(()), Finish())
    unsubscribe = Operation(Kind.UNSUBSCRIBE, "mark", NOW_MS, subscriptions={"s": "QUEUE"})
    assert steps(TOPIC, unsubscribe, RECORD) == (Unsubscribe(("s",)), Uncursor((LEFT, RIGHT)), Finish())
    assert unsubscribe.subscription == "s"


@pytest.mark.parametrize(
    "operation",
    [
        SPLIT,
        MERGE.entered(Phase.DECIDED),
        Operation(Kind.CREATE, "m", 5, subscriptions={"a/b": "QUEUE", "é": "STREAM"}, record=RECORD),
        Operation(Kind.SUBSCRIBE, "m", 5, subscriptions={"s": "STREAM"}, start=Start.LATEST, phase=Phase.GIVEN_UP),
        Operation(Kind.DELETE, "m", 5, (0, 1), (LEFT, RIGHT), phase=Phase.DECIDED),
    ],
    ids=lambda operation: operation.kind.value,
)
def test_the_record_says_it_all(operation: Operation) -> None:
    assert Operation.decode(operation.encode()) == operation


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format":2}',
        SPLIT.encode().replace(b'"split"', b'"spin"'),
        SPLIT.encode().replace(b'"now_ms":', b'"now_ms":"x",'),
        SPLIT.encode().replace(b'"preparing"', b"[]"),
        SPLIT.encode().replace(b'"names":[', b'"names":7,"x":['),
    ],
)
def test_what_no_operations_record_says_is_refused(value: bytes) -> None:
    with pytest.raises(LayoutError):
        Operation.decode(value)
