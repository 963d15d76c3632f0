"""Subscriptions created, deleted, and put somewhere else."""

from __future__ import annotations

from controller.client import Edge
from controller.console.visit import Visit
from controller.subscriptions import SubscriptionKind
from metastore.tables import moment_text


async def create(visit: Visit) -> None:
    arguments = visit.arguments
    kind, start = SubscriptionKind[arguments.kind], Edge(arguments.start)
    await visit.topics.create_subscription(visit.topic, arguments.subscription, kind, start)
    _report(visit, "created", f"is there, a {kind.value}")


async def delete(visit: Visit) -> None:
    await visit.topics.delete_subscription(visit.topic, visit.arguments.subscription)
    _report(visit, "deleted", "is deleted")


async def seek(visit: Visit) -> None:
    time_ms = visit.arguments.moment.at_ms(visit.clock.wall_ms())
    await visit.topics.seek(visit.topic, visit.arguments.subscription, time_ms)
    _report(visit, "sought", f"goes on at {moment_text(time_ms)}", time_ms=time_ms)


async def skip(visit: Visit) -> None:
    await visit.topics.skip_all(visit.topic, visit.arguments.subscription)
    _report(visit, "skipped", "is at the end of all segments")


def _report(visit: Visit, kind: str, text: str, **cells: object) -> None:
    name = visit.arguments.subscription
    row = {"topic": visit.topic, "subscription": name, **cells}
    visit.report(kind, row, f"subscription {name!r} of {visit.topic} {text}")
