"""Topics created, listed, deleted, and their properties."""

from __future__ import annotations

from controller.console.arguments import changed
from controller.console.visit import Visit
from controller.subscriptions import SubscriptionKind
from txn.doctor.texts import Section


async def create(visit: Visit) -> None:
    arguments = visit.arguments
    subscriptions = {name: SubscriptionKind[kind] for name, kind in arguments.subscription}
    state = await visit.topics.create(
        visit.topic,
        segments=arguments.segments,
        properties=dict(arguments.property),
        subscriptions=subscriptions,
    )
    row: dict[str, object] = {"topic": str(state.topic), "segments": len(state.layout.active)}
    visit.report("created", row, f"{state.topic} is there, with {row['segments']} segments")


async def list_(visit: Visit) -> None:
    limit, rows, left_out = visit.arguments.limit, list[dict[str, object]](), 0
    async for name in visit.topics.list(visit.namespace, dict(visit.arguments.property)):
        if len(rows) < limit:
            rows.append({"topic": name})
        else:
            left_out += 1
    visit.write(Section("topic", rows, empty="no such topics"))
    if left_out:
        visit.say(f"... and {left_out} more (--limit)")


async def delete(visit: Visit) -> None:
    await visit.topics.delete(visit.topic)
    visit.report("deleted", {"topic": visit.topic}, f"{visit.topic} is deleted, with all that belonged to it")


async def properties(visit: Visit) -> None:
    """Changes what is to be changed, and shows what there is then."""
    put, removed = dict(visit.arguments.property), visit.arguments.remove
    state = await visit.topics.describe(visit.topic)
    if put or removed:
        wanted = changed(state.record.properties, put, removed)
        state = await visit.topics.set_properties(visit.topic, wanted)
    rows = [{"key": key, "value": value} for key, value in sorted(state.record.properties.items())]
    visit.write(Section("property", rows, empty=f"{visit.topic} has no properties"))
