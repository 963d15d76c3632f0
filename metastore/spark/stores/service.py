"""Our service, over the network: points that it holds, and bulk scans at them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from typing import TypeVar

import numpy
from google.protobuf.message import Message

from metastore.addresses import split_url
from metastore.engine.cutting import Cuts
from metastore.engine.keys import key_order
from metastore.engine.record import read_varint
from metastore.interface import StoreUrl
from metastore.pb import oxia_pb2
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.wire.plain_store import PlainStore
from metastore.providers.wire.protocol import BULK_SCAN, CHANGES, CUT_RANGE, DESCRIBE, HOLD_POINT, REACH, RELEASE_POINT
from metastore.providers.wire.scans import BrokenOff, Source, alone
from metastore.providers.wire.store import WireStore
from metastore.spark.errors import StoreUnreachable, WrongOption
from metastore.spark.records import Records, records_in
from metastore.spark.stores.contract import ContractStore, PlainShards
from metastore.spark.stores.leaves import Unsent, copied
from metastore.spark.stores.loop import Loop
from metastore.spark.stores.model import Advance, ChangedRecord, Piece, SourceStore
from metastore.spark.stores.point import Point

M = TypeVar("M", bound=Message)
T = TypeVar("T")

ROWS_MAX = 10_000
"""Records in one message, as the service allows."""

RESUMPTIONS_MAX = 3
"""How often in a row a stream that broke off is asked for again, if nothing new comes of it."""

RECORDS_TAG, PAGES_TAG = b"\n", b'"'

_KINDS = {number: name.lower() for name, number in pb.ChangeKind.items()}


def open_service(url: StoreUrl, namespace: str | None) -> SourceStore:
    """The store behind an `oxia://` URL: our service, or a plain Oxia."""
    text = url.text
    if namespace is not None:
        parts = split_url(text)
        servers = ",".join(each.netloc for each in parts)
        text = parts[0]._replace(netloc=servers, path=f"/{namespace}").geturl()
    loop = Loop(text)
    if isinstance(loop.store, PlainStore):
        return ContractStore(loop, PlainShards(loop.store))
    assert isinstance(loop.store, WireStore), f"{text} opened as {type(loop.store).__name__}"
    return ServiceStore(loop, loop.store, url.path.strip("/") if namespace is None else namespace)


class ServiceStore(SourceStore):
    """A namespace of our service."""

    is_consistent = True

    def __init__(self, loop: Loop, store: WireStore, namespace: str) -> None:
        self._loop = loop
        self._caller = store.caller
        self._shards = store.shards
        self.key_sorting = store.key_sorting
        self.shards = self._shards.over(None)
        request = pb.DescribeRequest(namespace=namespace.encode())
        described = self._ask(self.shards[0], DESCRIBE, request, pb.DescribeResponse)
        self._identity = f"{described.store_id.decode()}/{described.namespace.decode()}"

    def _ask(self, shard: int, path: str, request: Message, answer: type[M]) -> M:
        what = path.rpartition("/")[2]
        message = request.SerializeToString()
        reply = self._loop.run(lambda: self._caller.unary(shard, path, message, what, repeatable=True))
        return answer.FromString(reply.message)

    def _stream(
        self, shard: int, path: str, request: Message, decode: Callable[[bytes], Sequence[T]], *, goes_on: bool
    ) -> Generator[T, None, None]:
        what = path.rpartition("/")[2]
        source = Source(self._caller, shard, path, request.SerializeToString(), decode, what, goes_on=goes_on)
        for portion in self._loop.each(_portions(source)):
            yield from portion

    def shard_of(self, partition_key: str) -> int:
        return self._shards.owner("", partition_key)

    # -- points

    def pin(self, hold_ms: int, *, is_passing: bool = False) -> Point:
        states: dict[int, dict[str, int]] = {}
        point = Point(self._identity, states)
        try:
            for shard in self.shards:
                request = pb.HoldPointRequest(shard=shard, hold_ms=hold_ms, passing=is_passing)
                held = self._ask(shard, HOLD_POINT, request, pb.HoldPointResponse)
                states[shard] = {"offset": held.next_offset, "point": held.point}
        except BaseException as error:
            try:
                self.release(point)
            except StoreUnreachable as second:
                error.add_note(f"what was held already could not be let go: {second}")
            raise
        return point

    def check_point(self, point: Point) -> None:
        if point.store != self._identity:
            raise WrongOption(f"the point is of store {point.store}, and this one is {self._identity}")

    def release(self, point: Point) -> None:
        for shard, state in point.shards.items():
            request = pb.ReleasePointRequest(shard=shard, point=state["point"])
            self._ask(shard, RELEASE_POINT, request, pb.ReleasePointResponse)

    # -- reading

    def cuts(self, piece: Piece, count: int) -> Cuts:
        assert piece.shard is not None
        request = pb.CutRangeRequest(shard=piece.shard, range=_range(piece), parts=count)
        found = self._ask(piece.shard, CUT_RANGE, request, pb.CutRangeResponse)
        return Cuts(list(found.keys), found.entries)

    def scan(self, piece: Piece, point: Point, rows: int) -> Iterator[Records]:
        shard = piece.shard
        assert shard is not None
        if "point" not in point.shards[shard]:
            raise WrongOption("the point is of the directory, and the store is read through its service: pin it there")
        done = Done(piece)
        yield from resumed(lambda goes_on: done.noting(self._whole(done.rest, shard, point, rows, goes_on)))

    def _whole(
        self, piece: Piece, shard: int, point: Point, rows: int, goes_on: bool
    ) -> Generator[Records, None, None]:
        with closing(self._scanned(piece, shard, point, rows, pages=piece.index is None, goes_on=goes_on)) as parts:
            for part in parts:
                if isinstance(part, Unsent):
                    yield from self._asked_again(part, piece, shard, point, rows)
                else:
                    yield part

    def _asked_again(self, unsent: Unsent, piece: Piece, shard: int, point: Point, rows: int) -> Iterator[Records]:
        order = key_order(self.key_sorting)
        # More may be before this end than is wanted: it is no key of the store, and its place may be another.
        again = replace(piece, start=order.decode(unsent.first), end=order.decode(unsent.last) + b"\0")
        left = unsent.records
        with closing(self._scanned(again, shard, point, min(rows, left), pages=False, goes_on=False)) as found:
            for records in found:
                assert isinstance(records, Records), "records were wanted"
                yield records if len(records) <= left else records.some(numpy.arange(left))
                left -= len(records)
                if left <= 0:
                    return
        raise AssertionError(f"{left} records of the point are missing from {again.start!r} on")

    def _scanned(
        self, piece: Piece, shard: int, point: Point, rows: int, *, pages: bool, goes_on: bool
    ) -> Generator[Records | Unsent, None, None]:
        held, is_index = point.shards[shard]["point"], piece.index is not None
        request = pb.BulkScanRequest(
            shard=shard, point=held, range=_range(piece), rows=min(rows, ROWS_MAX), pages=pages
        )
        return self._stream(shard, BULK_SCAN, request, lambda message: told(message, shard, is_index), goes_on=goes_on)

    # -- the change log

    def advance(self, piece: Piece, offset: int | None, changes_max: int | None) -> Advance:
        assert piece.shard is not None
        request = pb.ReachRequest(shard=piece.shard, range=_range(piece), from_offset=offset, changes_max=changes_max)
        reach = self._ask(piece.shard, REACH, request, pb.ReachResponse)
        return Advance(reach.first_offset, reach.next_offset, reach.to_offset, reach.changes)

    def changes(self, piece: Piece, start: int, end: int) -> Iterator[list[ChangedRecord]]:
        shard, offset = piece.shard, start
        assert shard is not None

        def rest(goes_on: bool) -> Generator[list[ChangedRecord], None, None]:
            nonlocal offset
            request = pb.ChangesRequest(shard=shard, range=_range(piece), from_offset=offset, to_offset=end)
            for changes in self._stream(shard, CHANGES, request, _changes, goes_on=goes_on):
                offset = changes[-1].offset + 1
                yield changes

        return resumed(rest)

    def close(self) -> None:
        self._loop.close()


class Interrupted(StoreUnreachable):
    """A stream broke off, and the rest of it may still be had."""


async def _portions(source: Source[T]) -> AsyncGenerator[Sequence[T], None]:
    """What a source tells. When it breaks off, that is no failure yet."""
    try:
        async with aclosing(alone(source)) as portions:
            async for portion in portions:
                yield portion
    except BrokenOff as error:
        raise Interrupted(str(error)) from None


def resumed(begin: Callable[[bool], Generator[T, None, None]]) -> Generator[T, None, None]:
    """What `begin` reads. When that breaks off it is called again, to go on behind what was handed out.

    The service ends a stream of which nobody takes anything for a minute. Whoever reads may be slower than that, or
    read another one meanwhile: what he reads is kept longer.
    """
    resumptions = 0
    goes_on = False
    while True:
        try:
            with closing(begin(goes_on)) as items:
                for item in items:
                    resumptions = 0
                    yield item
            return
        except Interrupted as error:
            if resumptions == RESUMPTIONS_MAX:
                raise StoreUnreachable(str(error)) from None
        resumptions += 1
        goes_on = True


class Done:
    """How far a scan has come: to which key, or of an index which secondary key, and to how many records of that."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._last: Records | None = None
        """Were handed out last. Most scans never ask which key that was: to find out costs more than to keep them."""
        self._handed_out = 0
        """Of the first key of the rest."""

    @property
    def rest(self) -> Piece:
        """Begins with the last key, which is in the store: there may be no key that is right behind it."""
        return self._piece if self._last is None else replace(self._piece, start=_last_key(self._last))

    def noting(self, found: Generator[Records, None, None]) -> Generator[Records, None, None]:
        """Of the rest, what was not handed out before."""
        again = self._handed_out
        with closing(found):
            for records in found:
                if again:
                    known = min(again, len(records))
                    again -= known
                    records = records.some(numpy.arange(known, len(records)))
                if len(records):
                    self._note(records)
                    yield records

    def _note(self, records: Records) -> None:
        keys, before, self._last = records.secondary_keys, self._last, records
        if keys is None:
            self._handed_out = 1
            return
        count = len(keys) - bisect_left(keys, True, key=lambda key: key == keys[-1])
        is_same = before is not None and count == len(keys) and keys[-1] == _last_key(before)
        self._handed_out = count + (self._handed_out if is_same else 0)


def _last_key(records: Records) -> bytes:
    """The key, or where an index was read the secondary key, of the last one."""
    if records.secondary_keys is not None:
        return records.secondary_keys[-1]
    key: bytes = records.some(numpy.array([len(records) - 1])).keys[0].as_py()
    return key


def _range(piece: Piece) -> pb.BulkRange:
    return pb.BulkRange(start_inclusive=piece.start, end_exclusive=piece.end, index_name=piece.index)


def told(message: bytes, shard: int, is_index: bool) -> Sequence[Records | Unsent]:
    """What a bulk message tells. Its first field is nearly all of it: that is read where it is, and not copied."""
    assert message[:1] in (RECORDS_TAG, PAGES_TAG), "a bulk message begins with its records, or pages"
    size, start = read_varint(message, 1)
    rest = pb.BulkScanResponse.FromString(message[start + size :])
    lengths = numpy.frombuffer(rest.lengths, "<u4").astype(numpy.int64)
    buffer = memoryview(message)[start : start + size]
    if message[:1] == PAGES_TAG:
        return [
            part if isinstance(part, Unsent) else records_in(part.buffer, part.starts, shard)
            for part in copied(buffer, lengths, rest.skipped, rest.told)
        ]
    starts = numpy.cumsum(lengths) - lengths
    return [records_in(buffer, starts, shard, list(rest.secondary_keys) if is_index else None)]


def _changes(message: bytes) -> list[list[ChangedRecord]]:
    writes = pb.ChangesResponse.FromString(message).writes
    assert not writes[-1].is_continued, "a message ends with a whole write"
    return [
        [
            ChangedRecord(
                _KINDS[change.kind],
                change.record.key if change.HasField("record") else change.key,
                _entry(change.record) if change.HasField("record") else None,
                write.offset,
                write.timestamp,
            )
            for change in write.changes
        ]
        for write in writes
    ]


def _entry(record: oxia_pb2.GetResponse) -> bytes:
    """A GetResponse as an entry of a RangeScanResponse: written by us, with its fields in their order."""
    return oxia_pb2.RangeScanResponse(records=[record]).SerializeToString()
