"""A topic, or a namespace, followed until somebody has seen enough."""

from __future__ import annotations

from controller.client.topics.layouts import TopicState
from controller.console.visit import Visit
from metastore.tables import moment_text
from txn.doctor.texts import Section


async def watch(visit: Visit) -> None:
    if visit.arguments.topic is None:
        await _watch_namespace(visit)
    else:
        await _watch_topic(visit)


async def _watch_topic(visit: Visit) -> None:
    async for state in visit.topics.watch(visit.topic):
        at_ms = visit.clock.wall_ms()
        if visit.arguments.json:
            visit.write(Section("topic", [_cells(visit.topic, state, at_ms)]))
        else:
            visit.say(f"{_moment(at_ms)}  {_sentence(visit.topic, state)}")


def _cells(topic: str, state: TopicState | None, at_ms: int) -> dict[str, object]:
    if state is None:
        return {"at_ms": at_ms, "topic": topic, "is_there": False}
    leader = None if state.leader is None else state.leader.name
    whole: dict[str, object] = {"at_ms": at_ms, "topic": topic, "is_there": True, "leader": leader}
    return whole | {"record": state.record.fields()}


def _sentence(topic: str, state: TopicState | None) -> str:
    if state is None:
        return f"there is no {topic}"
    layout = state.layout
    active = ", ".join(f"{each.segment_id} ({each.range.hex})" for each in layout.active)
    leader = "nobody" if state.leader is None else state.leader.name
    sealed = f", {len(layout.sealed)} sealed" if layout.sealed else ""
    return f"epoch {layout.epoch}: {active}{sealed}; led by {leader}"


async def _watch_namespace(visit: Visit) -> None:
    async for change in visit.topics.watch_namespace(visit.namespace, dict(visit.arguments.property)):
        at_ms = visit.clock.wall_ms()
        if visit.arguments.json:
            row = {"at_ms": at_ms, "removed": sorted(change.removed), "added": sorted(change.added)}
            visit.write(Section("change", [row]))
        else:
            marked = [
                *(("-", name) for name in sorted(change.removed)),
                *(("+", name) for name in sorted(change.added)),
            ]
            visit.say(*(f"{_moment(at_ms)}  {mark} {name}" for mark, name in marked))


def _moment(at_ms: int) -> str:
    return moment_text(at_ms)
