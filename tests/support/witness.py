"""Proof that a request changed nothing: what a client can see of a server, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from metastore.pb import oxia_pb2
from support.wire import Answer, WireClient

SHARDS = 2
INDEX = b"witnessed"
PROBE_KEY = b"a probe of the witness"


@dataclass(frozen=True)
class ShardState:
    """What can be seen of one shard: how many writes it has had, its records and the entries of an index."""

    last_offset: int
    records: list[Any]
    indexed: list[Any]


class Witness:
    """Looks at the shards of a server, and at one secondary index."""

    def __init__(self, wire: WireClient) -> None:
        self._wire, self._shards = wire, range(SHARDS)

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
        by_index = oxia_pb2.RangeScanRequest(shard=shard, end_exclusive=b"~", secondary_index_name=INDEX)
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


def give_records(wire: WireClient) -> None:
    """Every shard gets an indexed record and a sequence of two parts."""
    index = oxia_pb2.SecondaryIndex(index_name=INDEX, secondary_key=b"s")
    puts = [
        oxia_pb2.PutRequest(key=b"a", value=b"1", secondary_indexes=[index]),
        oxia_pb2.PutRequest(key=b"seq", partition_key=b"p", sequence_key_delta=[1, 1]),
    ]
    for shard in range(SHARDS):
        answer = wire.call("Write", oxia_pb2.WriteRequest(shard=shard, puts=puts))
        assert [put.status for put in answer.only.puts] == [oxia_pb2.Status.OK] * len(puts)


def assert_refused(answer: Answer, code: grpc.StatusCode, *words: str) -> None:
    """Asserts that a call failed with a code, a message with all these words, and nothing else."""
    assert answer.status.code is code, answer.status
    assert answer.messages == []
    missing = [word for word in words if word.lower() not in answer.status.message.lower()]
    assert not missing, answer.status
