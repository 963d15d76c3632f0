"""What topics and namespaces say about scaling and retention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.client.topics.descriptions import Policy
from controller.console.visit import Visit
from txn.doctor.texts import Section


async def get(visit: Visit) -> None:
    _show(visit, await _policy(visit))


async def set_(visit: Visit) -> None:
    """What is not named stays as it is."""
    before = (await _policy(visit)).auto_scale or {}
    wanted = {**before, **dict(visit.arguments.overrides)}
    _show(visit, await _say(visit, {name: value for name, value in wanted.items() if value is not None} or None))


async def clear(visit: Visit) -> None:
    _show(visit, await _say(visit, None))


async def _policy(visit: Visit) -> Policy:
    if visit.arguments.topic is not None:
        return await visit.topics.policy(visit.topic)
    return await visit.topics.namespace_policy(visit.namespace)


async def _say(visit: Visit, overrides: Mapping[str, Any] | None) -> Policy:
    if visit.arguments.topic is not None:
        return await visit.topics.set_policy(visit.topic, overrides)
    return await visit.topics.set_namespace_policy(visit.namespace, overrides)


def _show(visit: Visit, policy: Policy) -> None:
    said = policy.auto_scale or {}
    holds = policy.effective_auto_scale
    rows = [{"setting": name, "holds": value, "said_here": said.get(name)} for name, value in holds.items()]
    visit.write(Section("setting", rows))


async def get_retention(visit: Visit) -> None:
    _show_retention(visit, await visit.topics.namespace_policy(visit.namespace))


async def set_retention(visit: Visit) -> None:
    _show_retention(visit, await visit.topics.set_retention(visit.namespace, visit.arguments.minutes))


async def clear_retention(visit: Visit) -> None:
    _show_retention(visit, await visit.topics.set_retention(visit.namespace, None))


def _show_retention(visit: Visit, policy: Policy) -> None:
    row = {"retention_minutes": policy.effective_retention_minutes, "said_here": policy.retention_minutes}
    visit.write(Section("retention", [row], is_fields=True))
    if policy.effective_retention_minutes < 0:
        visit.say("a negative number: for ever")
