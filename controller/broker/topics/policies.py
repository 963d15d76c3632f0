"""What topics and namespaces say about scaling and retention, and what holds for them: at any broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controller.autoscale import AutoScaleConfig, InvalidAutoScale
from controller.broker.topics.config import RETENTION_MINUTES_MAX
from controller.broker.topics.desk import TopicDesk, named
from controller.errors import InvalidRequest
from controller.layout import NamespaceName, TopicRecord
from controller.pb import topics_pb2 as pb
from controller.topics.policies import NamespacePolicy

POLICY_BYTES_MAX = 64 << 10


class PolicyDesk:
    """Policies, read and changed. What could never hold is refused."""

    def __init__(self, desk: TopicDesk) -> None:
        self._desk = desk
        self._around = desk.leaders.around

    async def get(self, request: pb.GetPolicyRequest, principal: str | None) -> pb.Policy:
        """Of a topic or of a namespace."""
        match request.WhichOneof("of"):
            case "topic":
                topic = named(request.topic)
                stored = await self._desk.topics.read(topic)
                return self._of_topic(stored.record, await self._desk.policies.read(topic.parent))
            case "namespace":
                return self._of_namespace(await self._desk.policies.read(NamespaceName.parse(request.namespace)))
        raise InvalidRequest("the policy of nothing: a topic or a namespace is expected")

    async def set(self, request: pb.SetPolicyRequest, principal: str | None) -> pb.Policy:
        """Says something else from now on."""
        match request.WhichOneof("of"):
            case "topic":
                return await self._set_of_topic(request)
            case "namespace":
                return await self._set_of_namespace(request)
        raise InvalidRequest("the policy of nothing: a topic or a namespace is expected")

    async def _set_of_topic(self, request: pb.SetPolicyRequest) -> pb.Policy:
        if request.HasField("retention_minutes") or request.clears_retention:
            raise InvalidRequest("retention is a namespace's to say: no topic has its own")
        topic = named(request.topic)
        above = await self._desk.policies.read(topic.parent)
        if not request.HasField("auto_scale"):
            return self._of_topic((await self._desk.topics.read(topic)).record, above)
        overrides = overrides_of(request.auto_scale)
        self._around.auto_scale.overridden(above.auto_scale, overrides)

        def change(record: TopicRecord) -> TopicRecord:
            return replace(record, auto_scale_policy=overrides)

        return self._of_topic((await self._desk.topics.update(topic, change)).record, above)

    async def _set_of_namespace(self, request: pb.SetPolicyRequest) -> pb.Policy:
        namespace = NamespaceName.parse(request.namespace)
        if request.HasField("retention_minutes") and request.clears_retention:
            raise InvalidRequest("a retention that is set and cleared: say one of them")
        if abs(request.retention_minutes) > RETENTION_MINUTES_MAX:
            raise InvalidRequest(
                f"a retention of {request.retention_minutes} minutes: at most {RETENTION_MINUTES_MAX} "
                "(RETENTION_MINUTES_MAX), or a negative number for ever"
            )
        overrides = overrides_of(request.auto_scale)
        self._around.auto_scale.overridden(overrides)

        def change(policy: NamespacePolicy) -> NamespacePolicy:
            if request.HasField("auto_scale"):
                policy = replace(policy, auto_scale=overrides)
            if request.HasField("retention_minutes"):
                policy = replace(policy, retention_minutes=request.retention_minutes)
            return replace(policy, retention_minutes=None) if request.clears_retention else policy

        return self._of_namespace(await self._desk.policies.update(namespace, change))

    # -- what holds

    def _of_topic(self, record: TopicRecord, above: NamespacePolicy) -> pb.Policy:
        own = record.auto_scale_policy
        return pb.Policy(
            auto_scale=said(own),
            effective_auto_scale=effective(self._around.auto_scale, above.auto_scale, own),
            effective_retention_minutes=self.minutes(above),
        )

    def _of_namespace(self, policy: NamespacePolicy) -> pb.Policy:
        return pb.Policy(
            auto_scale=said(policy.auto_scale),
            retention_minutes=policy.retention_minutes,
            effective_auto_scale=effective(self._around.auto_scale, policy.auto_scale),
            effective_retention_minutes=self.minutes(policy),
        )

    def minutes(self, policy: NamespacePolicy) -> int:
        """The retention that holds in a namespace."""
        own = policy.retention_minutes
        return self._around.retention_minutes if own is None else own


def overrides_of(text: str) -> dict[str, Any] | None:
    """An override object as it is given; None where nothing is said. InvalidAutoScale if it is none."""
    if not text.strip():
        return None
    if len(text.encode()) > POLICY_BYTES_MAX:
        raise InvalidAutoScale(f"a policy of {len(text.encode())} bytes: at most {POLICY_BYTES_MAX} (POLICY_BYTES_MAX)")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidAutoScale(f"{text[:80]!r} is no JSON object of overrides: {error}") from None
    if not isinstance(found, dict):
        raise InvalidAutoScale(f'{text[:80]!r} is no JSON object of overrides, as {{"maxSegments": 8}} is one')
    return {name: value for name, value in found.items() if value is not None}


def said(overrides: Mapping[str, Any] | None) -> str:
    """What was said, as JSON; empty for nothing."""
    return "" if overrides is None else json.dumps(dict(overrides), separators=(",", ":"))


def effective(config: AutoScaleConfig, *overrides: Mapping[str, Any] | None) -> str:
    """What holds, as JSON. Where what is said contradicts itself, nothing scales by itself."""
    try:
        shown = config.overridden(*overrides).shown()
    except InvalidAutoScale:
        shown = {**config.shown(), "enabled": False}
    return json.dumps(shown, separators=(",", ":"))
