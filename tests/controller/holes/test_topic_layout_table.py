"""The layouts that Pulsar's own tests assert, one by one (V4), and what pruning does not make ours forget (H7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.layout import Layout, LayoutError, Segment, TopicName, TopicRecord

ONE, TWO, FOUR = Layout.initial(1, 0), Layout.initial(2, 0), Layout.initial(4, 0)
NOW_MS = 1_700_000_000_000
TOPIC = TopicName.parse("persistent://tenant/ns/my-topic")


def shown(segment: Segment) -> tuple[str, bool, tuple[int, ...]]:
    return f"{segment.range.start:04x}-{segment.range.end:04x}", segment.is_active, segment.parents


def test_v4_a_hash_is_found() -> None:
    assert [TWO.find(hash).segment_id for hash in (0x1000, 0x9000)] == [0, 1]


def test_v4_a_split() -> None:
    layout = TWO.split(0, NOW_MS)
    assert (layout.epoch, len(layout.active), len(layout.segments), layout.next_segment_id) == (1, 3, 4, 4)
    assert not layout.segments[0].is_active
    assert layout.segments[0].children == (2, 3)
    assert shown(layout.segments[2]) == ("0000-3fff", True, (0,))
    assert shown(layout.segments[3]) == ("4000-7fff", True, (0,))
    assert layout.split(1, NOW_MS).next_segment_id == 6


def test_v4_a_merge_of_what_was_split() -> None:
    layout = TWO.split(0, NOW_MS).merge([2, 3], NOW_MS + 60_000)
    assert layout.epoch == 2
    assert [each.segment_id for each in layout.active] == [4, 1]
    assert shown(layout.segments[4]) == ("0000-7fff", True, (2, 3))
    assert [layout.segments[each].sealed_ms for each in (2, 3)] == [NOW_MS + 60_000] * 2
    assert layout.segments[4].created_ms == NOW_MS + 60_000
    assert layout.segments[4].sealed_ms == -1
    assert TWO.split(0, 0).merge([3, 2], 0).segments[4].parents == (3, 2), "the other way round as well"


def test_v4_times_of_a_split() -> None:
    before = Layout.initial(1, 5)
    layout = before.split(0, NOW_MS)
    assert (layout.segments[0].sealed_ms, layout.segments[0].created_ms) == (NOW_MS, 5)
    assert [(each.created_ms, each.sealed_ms) for each in layout.active] == [(NOW_MS, -1)] * 2


REFUSED: dict[str, Callable[[], Layout]] = {
    "a sealed one is split": lambda: TWO.split(0, 0).split(0, 0),
    "no neighbours are merged": lambda: FOUR.merge([0, 2], 0),
    "an active one is pruned": lambda: TWO.prune([0]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_v4_what_is_refused(what: str) -> None:
    with pytest.raises(LayoutError):
        REFUSED[what]()


def test_v4_pruning_and_relatives() -> None:
    layout = ONE.split(0, 0)
    assert layout.segments[0].children == (1, 2)
    assert (layout.segments[1].parents, layout.segments[0].parents) == ((0,), ())
    assert [each.segment_id for each in layout.lineage(0)] == [0, 1, 2]
    pruned = TWO.split(0, 0).prune([0])
    assert 0 not in pruned.segments
    assert [pruned.segments[each].parents for each in (2, 3)] == [(), ()]


def test_v4_a_record_keeps_what_stands_beside_the_layout() -> None:
    policy = {"enabled": False, "maxSegments": 8}
    record = TopicRecord(TWO, {"key": "value"}, policy).with_layout(TWO.split(0, 0))
    again = TopicRecord.decode(record.encode())
    assert (again.layout.epoch, again.layout.next_segment_id, len(again.layout.segments)) == (1, 4, 4)
    assert (again.properties, again.auto_scale_policy) == ({"key": "value"}, policy)


def test_v4_h7_merges_are_counted_and_pruning_does_not_make_them_forgotten() -> None:
    """Pulsar reads the depth from parents: where these are pruned it is 0 again, and its limit is none."""
    assert [each.merge_depth for each in TWO.split(0, 0).active] == [0, 0, 0]
    layout = ONE.split(0, 0).merge([1, 2], 0).split(3, 0)
    for each in (layout, layout.prune([0, 1, 2]), layout.prune([0, 1, 2, 3])):
        assert {segment.merge_depth for segment in each.active} == {1}
        assert each.merge([4, 5], 0).segments[6].merge_depth == 2


@pytest.mark.parametrize(("partitions", "count"), [(3, 3), (0, 1)])
def test_v4_a_topic_of_the_old_kind(partitions: int, count: int) -> None:
    layout = Layout.migrated(TOPIC, partitions, NOW_MS)
    old, new = range(count), range(count, 2 * count)
    assert (layout.epoch, layout.next_segment_id, len(layout.segments)) == (0, 2 * count, 2 * count)
    names = [f"{TOPIC}-partition-{each}" for each in old] if partitions else [str(TOPIC)]
    for segment_id, name in zip(old, names, strict=True):
        segment = layout.segments[segment_id]
        assert (shown(segment), segment.children) == (("0000-ffff", False, ()), tuple(new))
        assert segment.legacy_topic == name
    assert [each.segment_id for each in layout.active] == list(new)
    assert all(each.parents == tuple(old) and not each.is_legacy for each in layout.active)
    assert layout.active[-1].range.end == 0xFFFF
    if partitions == 3:
        assert [each.range.start for each in layout.active] == [0, 21845, 2 * 21845]
