"""The rows of what Pulsar's own tests assert of pure decisions, one by one: V1, V2, V3, V5, V6, V8, V9, V11.

Recorded cases cover most of them as well, but nobody sees there whether a row is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from controller.assignment import Assignment, round_robin, servable
from controller.autoscale import Action, AutoScaleConfig, Load, Metric, Situation, decide, is_material
from controller.layout import (
    HashRange,
    Layout,
    LayoutError,
    Router,
    Segment,
    SegmentName,
    TopicName,
    bucket_hash,
    bucket_ranges,
    equal_splits,
    key_hash,
    segment_hash,
)
from controller.layout.buckets import buckets_for_budget, spread
from controller.layout.hashing import legacy_partition
from controller.layout.ranges import FULL, joined

TOPIC = TopicName.parse("topic://tenant/ns/my-topic")
LEFT, RIGHT = HashRange(0, 0x7FFF), HashRange(0x8000, 0xFFFF)
REFUSED = "refused"
Row = tuple[Callable[[], Any], Any]
"""What is asked, and the answer; REFUSED where an error is one."""


def halves(start: int, end: int) -> list[str]:
    return [half.hex for half in HashRange(start, end).halves()]


def adjacency(one: HashRange, other: HashRange) -> tuple[bool, bool]:
    return one.is_adjacent(other), other.is_adjacent(one)


def partition() -> tuple[int | None, str]:
    name = TopicName.parse("topic://t/ns/my-topic-partition-3")
    return name.partition, str(name.base)


def segment_and_its_topic() -> tuple[str, str]:
    name = TOPIC.segment(LEFT, 1)
    return str(name), name.topic.local


def stored_by_name() -> tuple[str, str]:
    name = TopicName.parse("topic://tenant/namespace/a:b").segment(FULL, 0)
    return name.storage, str(SegmentName.of_storage(name.storage))


def all_of(*asked: Callable[[], Any]) -> Callable[[], Any]:
    """REFUSED if every one of them is."""

    def ask() -> Any:
        for each in asked:
            with pytest.raises(LayoutError):
                each()
        raise LayoutError("all of them")

    return ask


V1: Mapping[str, Row] = {
    "full range": (lambda: (FULL.start, FULL.end, FULL.size, str(FULL)), (0, 0xFFFF, 65_536, "[0000, ffff]")),
    "contains hashes": (
        lambda: [each in HashRange(0x1000, 0x2000) for each in (0x1000, 0x1500, 0x2000, 0x0FFF, 0x2001)],
        [True, True, True, False, False],
    ),
    "contains a range": (
        lambda: [
            HashRange(0x1000, 0x3000).covers(HashRange(0x1500, 0x2500)),
            HashRange(0x1500, 0x2500).covers(HashRange(0x1000, 0x3000)),
        ],
        [True, False],
    ),
    "split of all": (lambda: halves(0, 0xFFFF), ["0000-7fff", "8000-ffff"]),
    "split of two": (lambda: halves(100, 101), ["0064-0064", "0065-0065"]),
    "split of odd ones": (
        lambda: halves(0, 2) + halves(10, 14) + halves(0, 0x7FFF),
        ["0000-0001", "0002-0002", "000a-000c", "000d-000e", "0000-3fff", "4000-7fff"],
    ),
    "split of one": (lambda: halves(42, 42), REFUSED),
    "merge, either order": (lambda: [joined([LEFT, RIGHT]), joined([RIGHT, LEFT])], [FULL, FULL]),
    "merge over a gap": (lambda: joined([HashRange(0, 0x3FFF), RIGHT]), REFUSED),
    "adjacent": (
        lambda: [adjacency(LEFT, RIGHT), adjacency(LEFT, HashRange(0x9000, 0xFFFF))],
        [(True, True), (False, False)],
    ),
    "hex": (
        lambda: (HashRange(0x0A0B, 0xF0F0).hex, HashRange.parse_hex("0a0b-f0f0")),
        ("0a0b-f0f0", HashRange(0x0A0B, 0xF0F0)),
    ),
    "bounds": (
        all_of(lambda: HashRange(-1, 100), lambda: HashRange(0, 0x10000), lambda: HashRange(100, 50)),
        REFUSED,
    ),
    "segment": (segment_and_its_topic, ("segment://tenant/ns/my-topic/0000-7fff-1", "my-topic")),
    "parent of a segment": (lambda: str(TOPIC.segment(LEFT, 1).topic), str(TOPIC)),
    "no segment of an old topic": (
        all_of(
            lambda: TopicName.parse("persistent://tenant/ns/my-topic").segment(LEFT, 1),
            lambda: SegmentName.parse("persistent://tenant/ns/my-topic/0000-7fff-1"),
        ),
        REFUSED,
    ),
    "descriptor": (lambda: TOPIC.segment(LEFT, 3).descriptor, "0000-7fff-3"),
    "what is no name": (
        all_of(
            lambda: SegmentName.parse("segment://t/ns/x"),
            lambda: SegmentName.parse("segment://t/ns/"),
            lambda: SegmentName.parse("segment://t/ns/x/bad-descriptor"),
            lambda: TopicName.parse("topic://t/ns/"),
            lambda: TopicName.parse("topic://t"),
        ),
        REFUSED,
    ),
    "partition": (partition, (3, "topic://t/ns/my-topic")),
    "storage of a segment": (
        stored_by_name,
        ("tenant/namespace/segment/a%3Ab/0000-ffff-0", "segment://tenant/namespace/a:b/0000-ffff-0"),
    ),
    "storage of a topic": (
        lambda: TopicName.parse("topic://tenant/namespace/my-topic").storage,
        "tenant/namespace/my-topic",
    ),
    "encoded once (H21)": (
        lambda: (str(TopicName.parse("persistent://t/ns/a:b").scalable), TopicName.parse("topic://t/ns/a:b").path),
        ("topic://t/ns/a:b", "/topics/t/ns/a%3Ab"),
    ),
    "short names": (
        lambda: [str(TopicName.parse(each)) for each in ("my-topic", "tenant/ns/my-topic")],
        ["persistent://public/default/my-topic", "persistent://tenant/ns/my-topic"],
    ),
    "what keeps nothing": (TopicName.parse("non-persistent://tenant/ns/my-topic").for_use, REFUSED),
}
"""Ranges and names."""

WIDTHS = {
    1: "0000-ffff",
    2: "0000-7fff 8000-ffff",
    3: "0000-5554 5555-aaa9 aaaa-ffff",
    4: "0000-3fff 4000-7fff 8000-bfff c000-ffff",
    5: "0000-3332 3333-6665 6666-9998 9999-cccb cccc-ffff",
    6: "0000-2aa9 2aaa-5553 5554-7ffd 7ffe-aaa7 aaa8-d551 d552-ffff",
    7: "0000-2491 2492-4923 4924-6db5 6db6-9247 9248-b6d9 b6da-db6b db6c-ffff",
}


def first(segments: int) -> str:
    """The ranges of a first layout, which has no past."""
    layout = Layout.initial(segments, 0)
    assert (layout.epoch, layout.next_segment_id, len(layout.active)) == (0, segments, segments)
    assert not any(each.parents or each.children for each in layout.segments.values())
    return " ".join(each.range.hex for each in layout.active)


V2: Mapping[str, Row] = {
    **{f"{count} segments": (partial(first, count), WIDTHS[count]) for count in WIDTHS},
    "none": (lambda: first(0), REFUSED),
    "one hash each": (lambda: {each.range.size for each in Layout.initial(65_536, 0).active}, {1}),
    "more than hashes": (lambda: first(65_537), REFUSED),
}
"""First layouts."""

HASHES = {
    "": ("00000000", "0000", "0000", 0, 0),
    "a": ("3c2569b2", "3c25", "69b2", 2, 2),
    "b": ("95de7e03", "95de", "7e03", 3, 0),
    "c": ("e132d65f", "e132", "d65f", 3, 0),
    "key-0": ("e337f8bf", "e337", "f8bf", 3, 2),
    "key-1": ("98b115a0", "98b1", "15a0", 0, 1),
    "k-0": ("5a771f53", "5a77", "1f53", 3, 2),
    "order-42": ("4b11a18e", "4b11", "a18e", 2, 2),
    "customer-99": ("d8ffee14", "d8ff", "ee14", 0, 1),
    "stable-key": ("7396cfa0", "7396", "cfa0", 0, 2),
    "hello": ("248bfa47", "248b", "fa47", 3, 1),
    "clé": ("ea0452c3", "ea04", "52c3", 3, 0),
    "日本": ("c4d9f942", "c4d9", "f942", 2, 0),
}
"""By key: all of the hash, that of the segment, that of the bucket, and the partition of four and of three."""


def hashed(key: str) -> tuple[str, str, str, int, int]:
    raw = key_hash(key)
    assert raw == key_hash(key.encode()), "texts and bytes agree"
    return (
        f"{raw:08x}",
        f"{segment_hash(raw):04x}",
        f"{bucket_hash(raw):04x}",
        legacy_partition(raw, 4),
        legacy_partition(raw, 3),
    )


def old(number: int, range: HashRange = FULL) -> Segment:
    return Segment(number, range, legacy_topic=f"persistent://tenant/ns/my-topic-partition-{number}")


def covering() -> bool:
    """Whether keys go where their hashes are, again and again."""
    router = Router(Layout.initial(4, 0).active)
    keys = [*"abcdefg", "order-42", "customer-99"]
    return all(segment_hash(key_hash(key)) in router.route(key).range for key in keys * 20)


def in_turn() -> list[int]:
    router = Router(Layout.initial(3, 0).active)
    return [router.route(None).segment_id for _ in range(4)]


def by_partition() -> bool:
    router = Router([old(number) for number in range(4)])
    keys = ("a", "customer-1", "customer-2", "order-99", "")
    return all(router.route(key).segment_id == legacy_partition(key_hash(key), 4) for key in keys)


def old_beside_new() -> list[int]:
    router = Router([old(0, LEFT), Segment(1, RIGHT)])
    return [router.find(hash).segment_id for hash in (0, 0x7FFF, 0x8000, 0xFFFF)]


V3: Mapping[str, Row] = {
    **{f"key {key!r}": (partial(hashed, key), HASHES[key]) for key in HASHES},
    "the range that covers": (covering, True),
    "a single segment": (lambda: {Router([Segment(7, FULL)]).route(key).segment_id for key in HASHES}, {7}),
    "no segment": (lambda: Router([]), REFUSED),
    "an uncovered hash": (lambda: Router([Segment(0, LEFT)]).find(0x8000), REFUSED),
    "in turn": (in_turn, [0, 1, 2, 0]),
    "partitions": (by_partition, True),
    "a partition beside a segment": (old_beside_new, [0, 0, 1, 1]),
}
"""Hashes and routing."""


def buckets(layout: Layout) -> list[int]:
    """How many each segment has, by its number."""
    return [len(layout.segments[each].bucket_splits) + 1 for each in sorted(layout.segments)]


V5: Mapping[str, Row] = {
    "none, one": (lambda: [equal_splits(0), equal_splits(1)], [(), ()]),
    "two, four": (lambda: [equal_splits(2), equal_splits(4)], [(0x8000,), (0x4000, 0x8000, 0xC000)]),
    "three": (lambda: equal_splits(3), (21_845, 43_690)),
    "five, seven": (
        lambda: [equal_splits(5), equal_splits(7)],
        [(0x3333, 0x6666, 0x9999, 0xCCCC), (0x2492, 0x4924, 0x6DB6, 0x9249, 0xB6DB, 0xDB6D)],
    ),
    "for a budget": (lambda: [buckets_for_budget(4, each) for each in (1, 2, 4, 8, 3)], [4, 2, 1, 1, 1]),
    "first layouts": (lambda: [buckets(Layout.initial(each, 0)) for each in (1, 2, 4)], [[4], [2, 2], [1] * 4]),
    "partitions": (lambda: buckets(Layout.migrated(TOPIC, 2, 0)), [1, 1, 2, 2]),
    "split": (
        lambda: [buckets(Layout.initial(count, 0).split(0, 0))[count:] for count in (1, 4)],
        [[2, 2], [1, 1]],
    ),
    "merge": (lambda: buckets(Layout.initial(4, 0).merge([0, 1], 0))[4:], [2]),
    "ranges": (
        lambda: [[each.hex for each in bucket_ranges(equal_splits(count))] for count in (1, 2, 4)],
        [["0000-ffff"], ["0000-7fff", "8000-ffff"], ["0000-3fff", "4000-7fff", "8000-bfff", "c000-ffff"]],
    ),
    "spread over consumers": (
        lambda: [[list(each) for each in spread(*of)] for of in ((4, 2), (4, 3), (4, 5), (2, 3))],
        [[[0, 1], [2, 3]], [[0], [1], [2, 3]], [[], [0], [1], [2], [3]], [[], [0], [1]]],
    ),
}
"""Buckets."""


def assigned(segments: tuple[Segment, ...], consumers: int) -> list[list[int]]:
    """Who has what, in the order of names."""
    names = [f"c{number}" for number in range(1, consumers + 1)]
    found: Assignment = round_robin(segments, names)
    return [[share.segment_id for share in found[name]] for name in names]


SPLIT = Layout.initial(1, 0, bucket_budget=4).split(0, 0)
TWOS = Layout.initial(2, 0, bucket_budget=4).active
TEN = [f"c{number}" for number in range(1, 11)]
UNDRAINED, DRAINED = servable(SPLIT, ()), servable(SPLIT, {0})

V6: Mapping[str, Row] = {
    "2 consumers of 4": (lambda: assigned(Layout.initial(4, 0).active, 2), [[0, 2], [1, 3]]),
    "3 consumers of 4": (lambda: assigned(Layout.initial(4, 0).active, 3), [[0, 3], [1], [2]]),
    "5 consumers of 4": (lambda: assigned(Layout.initial(4, 0).active, 5), [[0], [1], [2], [3], []]),
    "buckets of two: 3, 4 and 5": (
        lambda: [assigned(TWOS, count) for count in (3, 4, 5)],
        [[[0], [0], [1]], [[0], [0], [1], [1]], [[0], [0], [1], [1], []]],
    ),
    "an undrained parent: 1, 2, 4 and 5": (
        lambda: [assigned(UNDRAINED, count) for count in (1, 2, 4, 5)],
        [[[0]], [[0]] * 2, [[0]] * 4, [*[[0]] * 4, []]],
    ),
    "a drained parent: 2 (H5)": (lambda: assigned(DRAINED, 2), [[1], [2]]),
    "a drained parent: 3, 4 and 5": (
        lambda: [assigned(DRAINED, count) for count in (3, 4, 5)],
        [[[1], [1], [2]], [[1], [1], [2], [2]], [[1], [1], [2], [2], []]],
    ),
    "the order of names": (
        lambda: [name for name, shares in round_robin(Layout.initial(10, 0).active, TEN).items() if len(shares) == 1],
        sorted(TEN),
    ),
}
"""Assignments."""


def overridden() -> dict[str, object]:
    """What a topic's policy says, above its namespace's."""
    namespace = {"maxSegments": 16, "splitMsgRateInThreshold": 20_000}
    topic = {"maxSegments": 4, "splitCooldownSeconds": 5}
    shown = AutoScaleConfig().overridden(namespace, topic).shown()
    return {name: value for name, value in shown.items() if value != AutoScaleConfig().shown()[name]}


V8: Mapping[str, Row] = {
    "a topic above its namespace": (
        overridden,
        {"maxSegments": 4, "splitMsgRateInThreshold": 20_000, "splitCooldownSeconds": 5},
    ),
    "nothing is overridden": (lambda: AutoScaleConfig().overridden(None, None), AutoScaleConfig()),
}
"""Configuration; what is refused is in `test_what_contradicts_itself_is_refused`."""

NOW_MS = 1_700_000_000_000
MERGED = Layout.initial(1, 0).split(0, 0).merge([1, 2], 0).split(3, 0)


def decided(layout: Layout, message_in: Mapping[int, float], config: AutoScaleConfig | None = None) -> tuple[Any, ...]:
    """Of loads that have been so for ten minutes."""
    rates = {
        each: Load({**dict.fromkeys(Metric, 0.0), Metric.MSG_RATE_IN: rate}, NOW_MS - 600_000)
        for each, rate in message_in.items()
    }
    found = decide(Situation(layout, rates, {}, NOW_MS), config or AutoScaleConfig())
    return found.action, *found.segments


def just_below() -> Action:
    """All that a segment may do without being split."""
    config = AutoScaleConfig()
    load = Load({metric: limit - 1 for metric, limit in config.split.items()}, NOW_MS)
    return decide(Situation(Layout.initial(1, 0), {0: load}, {}, NOW_MS), config).action


V9: Mapping[str, Row] = {
    "each metric just below": (just_below, Action.NONE),
    "a hot one beside a cold one": (lambda: decided(Layout.initial(2, 0), {0: 10_001, 1: 0}), (Action.SPLIT, 0)),
    "merged too often": (lambda: decided(MERGED, {4: 0, 5: 0}, AutoScaleConfig(max_dag_depth=1)), (Action.NONE,)),
    "not yet too often": (
        lambda: decided(MERGED, {4: 0, 5: 0}, AutoScaleConfig(max_dag_depth=2)),
        (Action.MERGE, 4, 5),
    ),
    "all are cold": (lambda: decided(Layout.initial(4, 0), dict.fromkeys(range(4), 0))[0], Action.MERGE),
}
"""Decisions that `test_v9_one_step_at_a_time` does not have."""


def material(last: float, current: float) -> bool:
    return is_material(dict.fromkeys(Metric, last), {**dict.fromkeys(Metric, last), Metric.MSG_RATE_OUT: current})


V11: Mapping[str, Row] = {
    "a third more or less": (lambda: [material(1000, 1300), material(1000, 700)], [True, True]),
    "a tenth": (lambda: material(1000, 1100), False),
    "from and to nothing": (lambda: [material(0, 1), material(1, 0), material(0, 0)], [True, True, False]),
    "one of four": (lambda: material(1000, 2000), True),
    "a quarter": (lambda: [material(1000, 1250), material(1000, 750)], [False, False]),
    "more than a quarter": (
        lambda: [material(1000, 1251), material(1000, 749), material(0, 0.001)],
        [True, True, True],
    ),
}
"""Which changes of a load are written."""

TABLES = {"V1": V1, "V2": V2, "V3": V3, "V5": V5, "V6": V6, "V8": V8, "V9": V9, "V11": V11}


@pytest.mark.parametrize(("table", "row"), [(table, row) for table, rows in TABLES.items() for row in rows])
def test_a_row_of_the_tables(table: str, row: str) -> None:
    ask, wanted = TABLES[table][row]
    if wanted == REFUSED:
        with pytest.raises(LayoutError):
            ask()
    else:
        assert ask() == wanted
