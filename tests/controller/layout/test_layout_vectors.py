"""Hashes, ranges, buckets, routing and layouts: as recorded, and where ours differ on purpose."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import pytest

from controller.layout import (
    HashRange,
    Layout,
    LayoutError,
    Router,
    Segment,
    SegmentState,
    TopicName,
    TopicRecord,
    bucket_hash,
    bucket_ranges,
    equal_splits,
    key_hash,
    segment_hash,
)
from controller.layout.buckets import bucket_of, buckets_for_budget, canonical_hash, spread
from controller.layout.hashing import legacy_partition
from controller.layout.ranges import joined
from support.vectors import cases

START_MS = 1_700_000_000_000
DERIVED = ("sealed", "active", "root", "leaf", "legacy")
OURS = ("mergedIds",)
"""By which the merge depth survives pruning (H7)."""


def digest(record: TopicRecord) -> str:
    """As the vectors have it: without what is derived, and without what is ours alone."""
    fields = record.fields()
    for segment in fields["segments"].values():
        for name in (*DERIVED, *OURS):
            segment.pop(name, None)
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_keys_are_hashed_as_recorded() -> None:
    for case in cases("head-hashing"):
        key = case["key"] if "key" in case else bytes.fromhex(case["bytes"])
        raw = key_hash(key)
        assert (raw, segment_hash(raw), bucket_hash(raw)) == (case["raw"], case["segment"], case["bucket"])
        assert [legacy_partition(raw, count) for count in (3, 4, 7)] == case["mod"]


def test_ranges_are_as_recorded() -> None:
    """What differs: of the forms of a range in hex, only the one that is written is read."""
    for case in cases("ranges"):
        operation, arguments, wanted = case["op"], case["args"], case["result"].get("ok")
        if operation == "two":
            if wanted is not None:
                _compare_two(arguments, wanted)
            continue
        try:
            found = _range_answer(operation, arguments)
        except LayoutError:
            assert wanted is None or (operation == "fromHex" and HashRange(*wanted).hex != arguments), case
        else:
            assert found == wanted, case


def _compare_two(arguments: Any, wanted: dict[str, Any]) -> None:
    one, other, point = HashRange(*arguments[0]), HashRange(*arguments[1]), arguments[2]
    assert one.is_adjacent(other) == wanted["adjacent"]
    assert one.covers(other) == wanted["contains"]
    assert (point in one) == wanted["containsPoint"]
    assert (one > other) - (one < other) == wanted["compare"]
    if "ok" in wanted["merge"]:
        assert joined([one, other]) == HashRange(*wanted["merge"]["ok"])
    else:
        with pytest.raises(LayoutError, match="not adjacent"):
            joined([one, other])


def _range_answer(operation: str, arguments: Any) -> Any:
    if operation == "fromHex":
        found = HashRange.parse_hex(arguments)
        return [found.start, found.end]
    if operation == "split":
        return [[half.start, half.end] for half in HashRange(*arguments).halves()]
    found = HashRange(*arguments)
    return {"size": found.size, "text": str(found), "hex": found.hex}


def test_buckets_are_as_recorded() -> None:
    for case in cases("head-buckets"):
        arguments, wanted = case["args"], case["result"].get("ok")
        if case["op"] == "equalWidth":
            assert list(equal_splits(arguments)) == wanted
        elif case["op"] == "bucketsForBudget":
            if arguments[1] > 0:
                assert buckets_for_budget(*arguments) == wanted
        elif wanted is not None:
            assert [[each.start, each.end] for each in bucket_ranges(arguments)] == wanted


def test_buckets_are_spread_over_consumers_as_recorded() -> None:
    for case in cases("head-bucket-spread"):
        consumers = enumerate(case["consumers"])
        order = sorted((name.encode("utf-16-be"), number, place) for place, (name, number) in consumers)
        if not order:
            assert set(case["owners"]) == {None}
            continue
        owned = zip(order, spread(case["buckets"], len(order)), strict=True)
        owners = [place for (_, _, place), buckets in owned for _ in buckets]
        assert owners == case["owners"]
        splits = equal_splits(case["buckets"])
        for hash, bucket, canonical in case["hashes"]:
            assert bucket_of(hash, splits) == bucket
            assert canonical_hash(bucket_ranges(splits)[bucket]) == canonical


def test_messages_are_routed_as_recorded() -> None:
    for case in cases("head-router"):
        segments = [
            Segment(number, HashRange(start, end), legacy_topic="old" if is_legacy else None)
            for number, start, end, is_legacy in case["segments"]
        ]
        if not segments:
            continue
        for route in case["routes"]:
            try:
                found: int | None = Router(segments).route(route["key"]).segment_id
            except LayoutError:
                found = None
            assert found == route["result"].get("ok"), (case["segments"], route)
        router = Router(segments)
        assert [router.route(None).segment_id for _ in case["roundRobin"]] == case["roundRobin"]


def test_first_layouts_are_as_recorded() -> None:
    for case in cases("head-initial"):
        arguments, wanted = case["args"], case["result"].get("ok")
        try:
            if case["kind"] == "initial":
                layout = Layout.initial(arguments[0], START_MS, bucket_budget=arguments[1])
            else:
                topic = TopicName.parse(arguments[0])
                layout = Layout.migrated(topic, arguments[1], START_MS, bucket_budget=arguments[2])
        except LayoutError:
            assert wanted is None
            continue
        assert digest(TopicRecord(layout)) == wanted["sha"], arguments
        if "json" in wanted:
            assert json.loads(TopicRecord(layout).encode()) == json.loads(wanted["json"])


class Replay:
    """One recorded sequence of operations, done by ours."""

    def __init__(self, case: dict[str, Any], counts: Counter[str]) -> None:
        self.case, self.counts = case, counts
        start = case["start"]
        self.layout = Layout.initial(start["segments"], START_MS, bucket_budget=start["budget"])
        self.has_pruned = False

    def run(self) -> None:
        for step in self.case["steps"]:
            if "op" in step:
                self._change(step)
            else:
                self._ask(step["ask"])

    def _change(self, step: dict[str, Any]) -> None:
        name, *arguments = step["op"]
        try:
            if name == "prune":
                layout = self.layout.prune(arguments)
            elif name == "split":
                layout = self.layout.split(*arguments)
            else:
                layout = self.layout.merge(arguments[:2], arguments[2])
        except LayoutError:
            assert "error" in step, step
            self.counts["refused"] += 1
            return
        assert "error" not in step, step
        self.has_pruned = self.has_pruned or name == "prune"
        record = TopicRecord.decode(TopicRecord(layout, self.case["properties"], self.case["policy"]).encode())
        assert record.layout == layout
        assert digest(record) == step["sha"]
        assert [each.segment_id for each in layout.active] == step["active"]
        self.layout = layout
        self.counts[name] += 1

    def _ask(self, ask: dict[str, Any]) -> None:
        try:
            found: int | None = self.layout.find(ask["hash"]).segment_id
        except LayoutError:
            found = None
        assert found == (ask["find"] if isinstance(ask["find"], int) else None)
        for segment_id, depth in ask["mergeDepths"]:
            ours = self.layout.segments[segment_id].merge_depth
            assert ours >= depth if self.has_pruned else ours == depth
        if ask["id"] in self.layout.segments:
            lineage = [each.segment_id for each in self.layout.lineage(ask["id"])]
            assert lineage == sorted(set(lineage))
            theirs = ask["lineage"] if isinstance(ask["lineage"], list) else ask["lineage"]["set"]
            assert set(lineage) == set(theirs)
            self.counts["lineages"] += 1


def test_layouts_change_as_recorded() -> None:
    """What differs: a lineage names each segment once, parents first; pruning does not forget merges (H7)."""
    counts = Counter[str]()
    for case in cases("head-layout"):
        Replay(case, counts).run()
    assert min(counts[name] for name in ("split", "merge", "prune", "refused", "lineages")) > 20, counts


def test_records_are_read_as_recorded() -> None:
    """What differs: a record without an active segment, or with a segment without range or state, is damaged."""
    counts = Counter[str]()
    for case in cases("records"):
        if case["kind"] != "record":
            continue
        try:
            record = TopicRecord.decode(case["input"].encode())
        except LayoutError:
            counts["refused"] += 1
            continue
        theirs = json.loads(case["result"]["ok"])
        ours = record.fields()
        assert {name: ours[name] for name in ("epoch", "nextSegmentId")} == {
            name: theirs[name] for name in ("epoch", "nextSegmentId")
        }
        assert all(each["state"] == SegmentState.ACTIVE.value for each in ours["segments"].values())
        counts["read"] += 1
    assert counts["read"] >= 2, counts
