"""A topic's segments: shown, drawn, split, merged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from controller.client.topics.layouts import TopicState
from controller.console.drawing import draw
from controller.console.svg import image
from controller.console.visit import Visit
from controller.layout import Segment
from metastore.commandline import CommandError
from txn.doctor.texts import Moment, Section

STANDARD_OUTPUT = Path("-")


async def describe(visit: Visit) -> None:
    state = await visit.topics.describe(visit.topic)
    visit.write(Section("topic", [_topic(state)], is_fields=True))
    visit.write(Section("segment", [_segment(state, each) for each in _in_order(state)], "SEGMENTS"))
    visit.say("", *draw(state.layout))


async def split(visit: Visit) -> None:
    before = await visit.topics.describe(visit.topic)
    state = await visit.topics.split(visit.topic, visit.arguments.segment)
    _tell(visit, before, state)


async def merge(visit: Visit) -> None:
    before = await visit.topics.describe(visit.topic)
    state = await visit.topics.merge(visit.topic, visit.arguments.segments)
    _tell(visit, before, state)


async def dag(visit: Visit) -> None:
    """Draws, in characters or as an image; programs get the segments."""
    arguments = visit.arguments
    state = await visit.topics.describe(visit.topic)
    if arguments.svg is None:
        if arguments.json:
            visit.write(Section("segment", [_segment(state, each) for each in _in_order(state)]))
        visit.say(*draw(state.layout, arguments.width))
        return
    document = image(str(state.topic), state.layout)
    if arguments.svg == STANDARD_OUTPUT:
        visit.out.write(document)
        return
    try:
        arguments.svg.write_text(document, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{arguments.svg} cannot be written: {error.strerror}") from error
    visit.report("image", {"file": str(arguments.svg)}, f"{arguments.svg} shows {state.topic}")


def _tell(visit: Visit, before: TopicState, after: TopicState) -> None:
    """The segments that came; what else has happened meanwhile as well."""
    new = [each for each in _in_order(after) if each.segment_id >= before.layout.next_segment_id]
    visit.write(Section("segment", [_segment(after, each) for each in new], empty="nothing has changed"))


def _in_order(state: TopicState) -> Iterable[Segment]:
    return sorted(state.layout.segments.values(), key=lambda each: each.segment_id)


def _topic(state: TopicState) -> dict[str, object]:
    layout, leader = state.layout, state.leader
    return {
        "topic": str(state.topic),
        "epoch": layout.epoch,
        "active": len(layout.active),
        "sealed": len(layout.sealed),
        "leader": None if leader is None else leader.name,
        "properties": [f"{key}={value}" for key, value in sorted(state.record.properties.items())],
        "has_policy": state.record.auto_scale_policy is not None,
    }


def _segment(state: TopicState, segment: Segment) -> dict[str, object]:
    owner = state.owners.get(segment.segment_id)
    return {
        "segment": segment.segment_id,
        "state": segment.state.value,
        "range": segment.range.hex,
        "parents": [str(each) for each in segment.parents],
        "children": [str(each) for each in segment.children],
        "epoch": segment.created_epoch,
        "created_ms": Moment(segment.created_ms),
        "merge_depth": segment.merge_depth,
        "owner": None if owner is None else owner.name,
        "name": state.name_of(segment),
    }
