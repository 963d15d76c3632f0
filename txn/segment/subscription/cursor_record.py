"""The record of a subscription's cursor: that it is there says that there is the subscription.

It is guarded by the grant of the segment's owner. On a store without `transact` a deleted one leaves a fence without a
value behind: whoever wants to know whether there is a subscription asks here.

A subscription is deleted in several steps, of which the first makes the record say so; whoever recovers such a record
finishes what was begun.
"""

from __future__ import annotations

import json

from metastore.coordination import read_guarded
from metastore.interface import MetadataStore
from txn.model import paths
from txn.model.fields import decoded_fields
from txn.segment.cursor import FORMAT, CursorState

DELETING = json.dumps({"format": FORMAT, "deleting": True}, separators=(",", ":")).encode()
"""What the record of a subscription says that is on its way out."""


def is_deleting(value: bytes) -> bool:
    """Whether a cursor's record says that its subscription is on its way out."""
    return bool(decoded_fields("cursor", value, FORMAT).get("deleting", False))


async def read_cursor(store: MetadataStore, segment: str, subscription: str) -> CursorState | None:
    """What a subscription has acknowledged, durably; None if there is no such subscription, or not for long."""
    guarded = await read_guarded(store, paths.cursor_key(segment, subscription), partition_key=segment)
    if guarded.value is None or is_deleting(guarded.value):
        return None
    return CursorState.decode(guarded.value)


async def has_cursor(store: MetadataStore, segment: str, subscription: str) -> bool:
    """Whether there is such a subscription, be it on its way out."""
    guarded = await read_guarded(store, paths.cursor_key(segment, subscription), partition_key=segment)
    return guarded.value is not None


async def subscriptions_of(store: MetadataStore, segment: str) -> list[str]:
    """The names of a segment's subscriptions, those on their way out as well."""
    every = paths.below(paths.cursors_path(segment), store.key_sorting)
    names = [paths.subscription_of_cursor_key(key) async for key in store.list(every, partition_key=segment)]
    return [name for name in names if await has_cursor(store, segment, name)]
