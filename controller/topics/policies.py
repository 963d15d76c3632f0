"""What holds for all topics of a namespace, unless they say otherwise: how they scale, and how long data is kept."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from controller.layout import InvalidName, LayoutError, NamespaceName
from metastore.coordination import Backoff, Pace, View
from metastore.interface import ABSENT, MetadataStore, OutcomeUnknown, UnexpectedVersion
from txn.model.paths import below

logger = logging.getLogger("tidemark.topics")

POLICIES = "/namespace-policies"
UPDATE_ATTEMPTS_MAX = 30


@dataclass(frozen=True, slots=True)
class NamespacePolicy:
    """What a namespace says; None: what the broker says."""

    auto_scale: Mapping[str, Any] | None = None
    """Overrides, as they were given; `controller.autoscale` knows what they mean."""
    retention_minutes: int | None = None
    """How long sealed segments are kept that nobody needs: negative for ever, 0 not at all."""

    def encode(self) -> bytes:
        """The record's value."""
        fields: dict[str, Any] = {}
        if self.auto_scale is not None:
            fields["scalableTopicAutoScalePolicy"] = dict(self.auto_scale)
        if self.retention_minutes is not None:
            fields["retentionMinutes"] = self.retention_minutes
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> NamespacePolicy:
        """Reads a record's value."""
        try:
            fields = json.loads(value or b"{}")
            policy, minutes = fields.get("scalableTopicAutoScalePolicy"), fields.get("retentionMinutes")
            return cls(None if policy is None else dict(policy), None if minutes is None else int(minutes))
        except (ValueError, TypeError, AttributeError) as error:
            raise LayoutError(f"a namespace's policy says {value[:200]!r}: {error!r}") from error


NO_POLICY = NamespacePolicy()


class Policies(Protocol):
    """What a broker knows of namespaces."""

    def find(self, namespace: NamespaceName) -> NamespacePolicy:
        """What a namespace says."""

    def listen(self, heard: Callable[[NamespaceName], None]) -> None:
        """Calls with each namespace that says something else from now on."""


class StoredPolicies:
    """The policies as they stand in the store. `follow` keeps them up to date: one watch for the whole broker."""

    def __init__(self, store: MetadataStore, pace: Pace) -> None:
        self._store = store
        self._pace = pace
        self._policies: dict[NamespaceName, NamespacePolicy] = {}
        self._listeners: list[Callable[[NamespaceName], None]] = []
        self._is_ready = asyncio.Event()

    async def ready(self) -> None:
        """Returns when it is known what all namespaces say: before that nothing is to be decided."""
        await self._is_ready.wait()

    def find(self, namespace: NamespaceName) -> NamespacePolicy:
        """What a namespace says, as far as this broker has heard."""
        return self._policies.get(namespace, NO_POLICY)

    def listen(self, heard: Callable[[NamespaceName], None]) -> None:
        """Calls with each namespace that says something else from now on."""
        self._listeners.append(heard)

    async def follow(self) -> None:
        """Follows the store until cancelled."""
        range = below(POLICIES, self._store.key_sorting)
        async with View(self._store, range, partition_key=POLICIES, pace=self._pace) as view:
            while True:
                for key in await view.news():
                    record = view.records.get(key)
                    self._take(key, None if record is None else record.value or b"")
                self._is_ready.set()

    def _take(self, key: str, value: bytes | None) -> None:
        try:
            namespace = _namespace_of_key(key)
            policy = NO_POLICY if value is None else NamespacePolicy.decode(value)
        except LayoutError as error:
            logger.error("%s is left out: %s", key, error)
            return
        self._policies[namespace] = policy
        for heard in self._listeners:
            heard(namespace)

    async def read(self, namespace: NamespaceName) -> NamespacePolicy:
        """What a namespace says now."""
        found = await self._store.get(_key(namespace), partition_key=POLICIES)
        return NO_POLICY if found is None else NamespacePolicy.decode(found.value or b"")

    async def update(
        self, namespace: NamespaceName, change: Callable[[NamespacePolicy], NamespacePolicy]
    ) -> NamespacePolicy:
        """Changes what a namespace says, however often others change it meanwhile."""
        backoff = Backoff(self._pace)
        for _ in range(UPDATE_ATTEMPTS_MAX):
            found = await self._store.get(_key(namespace), partition_key=POLICIES)
            before = NO_POLICY if found is None else NamespacePolicy.decode(found.value or b"")
            after = change(replace(before))
            if found is not None and after == before:
                return after
            expected = ABSENT if found is None else found.version.version_id
            try:
                await self._store.put(_key(namespace), after.encode(), expected=expected, partition_key=POLICIES)
                return after
            except (UnexpectedVersion, OutcomeUnknown):
                await backoff.pause()
        raise LayoutError(f"the policy of {namespace} changed {UPDATE_ATTEMPTS_MAX} times meanwhile: try again")


def _key(namespace: NamespaceName) -> str:
    return f"{POLICIES}/{namespace.tenant}~{namespace.namespace}"


def _namespace_of_key(key: str) -> NamespaceName:
    tenant, mark, namespace = key.removeprefix(f"{POLICIES}/").partition("~")
    if not mark:
        raise InvalidName(f"{key[:200]!r} is not the key of a namespace's policy")
    return NamespaceName(tenant, namespace)
