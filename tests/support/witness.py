"""Proof that a request changed nothing: what a client can see of a server, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from metastore.pb import oxia_pb2
from support.wire import WireClient

PROBE_KEY = b"a probe of the witness"


@dataclass(frozen=True)
class ShardState:
    """What can be seen of one shard: how many writes it has had, its records and the entries of an index."""

    last_offset: int
    records: list[Any]
    indexed: list[Any]


class Witness:
    """Looks at some shards of a server, and at one secondary index."""

    def __init__(self, wire: WireClient, shards: int, index_name: bytes) -> None:
        self._wire, self._shards, self._index_name = wire, range(shards), index_name

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """What happens within changes no record, takes no offset and no version id."""
        versions = [self._probe(shard) for shard in self._shards]
        before = [self._state(shard) for shard in self._shards]
        yield
        assert [self._state(shard) for shard in self._shards] == before
        assert [self._probe(shard) for shard in self._shards] == [version + 1 for version in versions]

    def _probe(self, shard: int) -> int:
        """Puts a record, and returns its version id."""
        request = oxia_pb2.WriteRequest(shard=shard, puts=[oxia_pb2.PutRequest(key=PROBE_KEY)])
        return int(self._wire.call("Write", request).only.puts[0].version.version_id)

    def _state(self, shard: int) -> ShardState:
        everything = oxia_pb2.RangeScanRequest(shard=shard)
        by_index = oxia_pb2.RangeScanRequest(
            shard=shard, end_exclusive=b"~", secondary_index_name=self._index_name
        )
        return ShardState(self._last_offset(shard), self._scan(everything), self._scan(by_index))

    def _last_offset(self, shard: int) -> int:
        stream = self._wire.open("GetNotifications", oxia_pb2.NotificationsRequest(shard=shard))
        offset = stream.next().offset
        stream.cancel()
        return int(offset)

    def _scan(self, request: oxia_pb2.RangeScanRequest) -> list[Any]:
        answer = self._wire.call("RangeScan", request)
        assert not answer.status.message, answer.status
        return [record for message in answer.messages for record in message.records]
