"""Which participants of transactions are gone for good, so that nobody will ever carry their part of an outcome out.

The answer is read from the store each time. A picture of what there was a moment ago would not do: of a segment that
was created in that moment it would say that it is gone, and what the collector then removes might be wanted. As it is,
the collector has read the operation before, and the segment existed before the operation did: if it is not there now
it was deleted, whatever may be created under its name later. What is left of a deleted namesake looks alive, and is
seen to by the new owner, who finds it in the index like his own.
"""

from __future__ import annotations

from metastore.interface import MetadataStore
from txn.hosting.descriptor import Descriptor
from txn.model import paths
from txn.model.operation import Operation
from txn.segment.subscription.cursor_record import has_cursor


class StoredParticipants:
    """`txn.coordinator.collector.Participants`, by the records of segments and subscriptions."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def is_gone(self, operation: Operation) -> bool:
        """Whether the segment or the subscription of an operation was deleted, never to come back."""
        segment, subscription = operation.segment, operation.subscription
        record = await self._store.get(paths.descriptor_key(segment), partition_key=segment)
        if record is None or Descriptor.decode(record.value or b"").is_deleting:
            return True  # on its way out it is not served to anybody any more
        return subscription is not None and not await has_cursor(self._store, segment, subscription)
