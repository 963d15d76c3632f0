"""The checker of topics finds what is wrong: each fault by its name, nothing else, and nothing where all is well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from topics_simulation.topic_lies import TopicLie
from topics_simulation.topic_notes import Reading, Subscribed
from topics_simulation.topic_shapes import WRITABLE_MS
from topics_simulation.topic_story import LEFT, RIGHT, SPLIT, TOPIC, WHOLE, TopicStory, part
from txn_histories.notes import Fate
from txn_histories.violations import Lie


def over_a_split() -> TopicStory:
    """Three messages of a key before a split and one behind it; everything comes to the stream in its order."""
    story = TopicStory()
    for name in "abc":
        story.send(name)
    story.split()
    story.send("d", 0, fate=Fate.REFUSED)
    story.send("d", 1)
    for name in "abc":
        story.deliver(name)
    story.deliver("d", 1)
    story.told({0}, one={1: True}, other={2: True})
    story.probe(1_000)
    return story


def test_a_topic_as_it_should_be() -> None:
    assert over_a_split().end().lies() == set()


def test_a_topic_that_is_gone_owes_nobody_anything() -> None:
    story = TopicStory()
    story.send("a")
    story.gone()
    assert story.end().lies() == set()


# ---- layouts

BROKEN = {
    "a gap": (part(0, active=False), part(1, 0, 0x7FFE, parents=(0,)), part(2, 0x8000, parents=(0,))),
    "an overlap": (part(0, active=False), part(1, 0, 0x8000, parents=(0,)), part(2, 0x8000, parents=(0,))),
    "the end is missing": (part(0, active=False), part(1, 0, 0x7FFF, parents=(0,))),
    "the beginning is missing": (part(0, active=False), part(2, 0x8000, parents=(0,))),
    "nothing is active": (part(0, active=False),),
    "both generations": (part(0), *SPLIT[1:]),
    "one that is upside down": (part(0), part(1, 0x10000, 0xFFFF)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_layouts_that_do_not_tile_the_ring(what: str) -> None:
    story = TopicStory()
    story.shape(*BROKEN[what])
    assert story.end().lies() == {TopicLie.NOT_TILED}


def _older(story: TopicStory) -> None:
    story.split()
    story.shape(*SPLIT, epoch=0)


def _another_of_the_same_epoch(story: TopicStory) -> None:
    story.shape(*SPLIT, epoch=0)


def _active_again(story: TopicStory) -> None:
    story.split()
    story.shape(*WHOLE)


def _back_from_the_dead(story: TopicStory) -> None:
    story.split()
    story.shape(part(1, 0, 0x7FFF), part(2, 0x8000))
    story.shape(*SPLIT)


def _a_number_given_twice(story: TopicStory) -> None:
    story.split()
    story.shape(*SPLIT[:2], part(2, 0x8000, active=False, parents=(0,)), part(5, 0x8000, parents=(2,)))
    story.shape(
        *SPLIT[:2],
        part(2, 0x8000, active=False, parents=(0,)),
        part(5, 0x8000, active=False, parents=(2,)),
        part(4, 0x8000, parents=(5,)),
    )


@pytest.mark.parametrize(
    "happens", [_older, _another_of_the_same_epoch, _active_again, _back_from_the_dead, _a_number_given_twice]
)
def test_layouts_that_go_back(happens: Callable[[TopicStory], None]) -> None:
    story = TopicStory()
    happens(story)
    assert story.end().lies() == {TopicLie.WENT_BACK}


def test_another_topic_of_the_name_begins_anew() -> None:
    story = TopicStory()
    story.split()
    story.gone()
    story.shape(*WHOLE, epoch=0)
    assert story.end().lies() == set()


def test_a_segment_that_is_not_there_to_be_read() -> None:
    assert TopicLie.MISSING_SEGMENT in over_a_split().end(2).lies()


# ---- where messages lie


def test_an_older_segment_takes_something_after_a_newer_one() -> None:
    story = over_a_split()
    story.send("e", 0, key="another")
    story.deliver("e")
    assert TopicLie.TWO_WRITABLE in story.end().lies()


def test_segments_that_are_no_relatives_take_what_they_like() -> None:
    story = TopicStory(*SPLIT)
    story.send("a", 2, hash=RIGHT)
    story.send("b", 1)
    story.deliver("a", 2)
    story.deliver("b", 1)
    assert story.end().lies() == set()


def test_a_message_in_a_segment_of_another_hash() -> None:
    story = TopicStory(*SPLIT)
    story.send("a", 2)
    story.deliver("a", 2)
    assert story.end().lies() == {TopicLie.MISROUTED}


def test_a_message_in_a_segment_that_no_layout_has() -> None:
    story = TopicStory()
    story.send("a", 7)
    assert TopicLie.MISROUTED in story.end().lies()


def test_a_message_in_parent_and_child() -> None:
    story = TopicStory()
    story.send("a")
    story.split()
    story.send("a", 1)
    story.deliver("a")
    story.deliver("a", 1)
    assert story.end().lies() == {TopicLie.STORED_TWICE}


def test_messages_of_a_key_in_the_wrong_order() -> None:
    story = TopicStory()
    story.send("a", number=2)
    story.send("b", number=1, key="another")
    story.send("c", number=1)
    for name in "abc":
        story.deliver(name)
    lies = story.end().lies()
    assert TopicLie.MISORDERED_LOG in lies


def test_messages_of_two_producers_in_another_order_than_they_were_answered() -> None:
    story = TopicStory()
    story.send("a", producer="p")
    story.split()
    story.send("b", 1, producer="q")
    sends = story.segments.history.sends
    sends[1] = replace(sends[1], invoked=sends[0].invoked - 2, returned=sends[0].invoked - 1)
    story.deliver("a")
    story.deliver("b", 1)
    assert TopicLie.MISORDERED_LOG in story.end().lies()


# ---- what comes to subscriptions


@pytest.mark.parametrize("reading", list(Reading))
def test_a_message_that_never_comes(reading: Reading) -> None:
    story = TopicStory(reading=reading)
    story.send("a")
    story.send("b")
    story.deliver("b")
    assert TopicLie.LOST_MESSAGE in story.end().lies()


def test_what_need_not_come() -> None:
    story = TopicStory()
    story.send("refused", fate=Fate.REFUSED)
    story.send("in doubt", fate=Fate.UNKNOWN)
    story.segments.begin("t")
    story.send("aborted", txn="t")
    story.segments.abort("t")
    since = story.segments.tick()
    story.notes.subscribed += [
        Subscribed(TOPIC, "late", Reading.STREAM, since + 100),
        Subscribed(TOPIC, "gone", Reading.STREAM, 0, since),
    ]
    story.send("a")
    story.deliver("a")
    assert story.end().lies() == set()


def test_checkpoints_may_miss_what_is_not_kept_for_them() -> None:
    story = TopicStory(reading=Reading.CHECKPOINT)
    story.send("a")
    story.notes.rest.pruned_without = True
    assert story.end().lies() == set()


@pytest.mark.parametrize("reading", [Reading.STREAM, Reading.CHECKPOINT])
def test_a_child_is_read_before_its_parent(reading: Reading) -> None:
    story = TopicStory(reading=reading)
    story.send("a")
    story.split()
    story.send("b", 1)
    story.deliver("b", 1)
    story.deliver("a")
    assert story.end().lies() == {TopicLie.MISORDERED_DELIVERY}


def test_a_queue_has_no_order() -> None:
    story = TopicStory(reading=Reading.QUEUE)
    story.send("a")
    story.split()
    story.send("b", 1)
    story.deliver("b", 1, is_shared=True)
    story.deliver("a", is_shared=True)
    assert story.end().lies() == set()


def test_what_comes_again_is_not_out_of_order() -> None:
    story = over_a_split()
    story.segments.history.sightings[0].deliveries.append(story.segments.history.sightings[0].deliveries[0])
    assert story.end().lies() <= {Lie.REPEATED, Lie.MISORDERED}


@pytest.mark.parametrize(("shown_ms", "is_early"), [(999, True), (1_000, False), (5_000, False)])
def test_delayed_messages_that_come_before_their_time(shown_ms: int, is_early: bool) -> None:
    story = TopicStory(reading=Reading.QUEUE)
    story.send("a")
    story.deliver("a", is_shared=True)
    story.timed("a", 1_000, shown_ms)
    assert story.end().lies() == ({TopicLie.TOO_EARLY} if is_early else set())


# ---- the exclusive right to produce


def written_by(*producers: str, claimants: str = "pq") -> TopicStory:
    """One message of each, one after the other; who claims does so before the first one."""
    story = TopicStory()
    for number, producer in enumerate(producers):
        if producer in claimants and producer not in producers[:number]:
            story.claim(producer)
        story.send(f"m{number}", producer=producer)
        story.deliver(f"m{number}")
    return story


@pytest.mark.parametrize("producers", ["ppqq", "pxxq", "xpx", "ppp", "xyx"])
def test_one_writer_after_another(producers: str) -> None:
    assert written_by(*producers).end().lies() == set()


@pytest.mark.parametrize("producers", ["pqp", "pxp", "ppxpp"])
def test_writers_that_are_two_at_a_time(producers: str) -> None:
    assert TopicLie.TWO_WRITERS in written_by(*producers).end().lies()


@pytest.mark.parametrize(("second", "is_well"), [("pq", True), ("qp", False)])
def test_turns_are_the_same_in_all_segments(second: str, is_well: bool) -> None:
    story = TopicStory(*SPLIT)
    story.claim("p")
    story.claim("q")
    for segment_id, hash, producers in ((1, LEFT, "pq"), (2, RIGHT, second)):
        for producer in producers:
            name = f"{producer}{segment_id}"
            story.send(name, segment_id, hash=hash, producer=producer)
            story.deliver(name, segment_id)
    assert (TopicLie.TWO_WRITERS in story.end(0).lies()) is not is_well


def test_a_turn_goes_on_over_a_split_or_comes_behind_it() -> None:
    story = TopicStory()
    story.claim("p")
    story.send("a", producer="p")
    story.claim("q")
    story.send("b", producer="q")
    story.split()
    story.send("c", 1, producer="p")
    for name, segment_id in (("a", 0), ("b", 0), ("c", 1)):
        story.deliver(name, segment_id)
    assert TopicLie.TWO_WRITERS in story.end().lies()


def test_who_has_lost_the_right_is_told_that_something_is_there() -> None:
    story = TopicStory()
    story.claim("p")
    story.claim("q")
    story.send("a", producer="p")
    story.deliver("a")
    assert story.end().lies() == {TopicLie.FENCED_WRITE}


def test_somebody_writes_beside_who_has_the_right() -> None:
    story = TopicStory(*SPLIT)
    story.claim("p")
    story.send("a", 1, producer="x")
    story.send("b", 2, hash=RIGHT, producer="p")
    story.deliver("a", 1)
    story.deliver("b", 2)
    assert TopicLie.FENCED_WRITE in story.end(0).lies()


# ---- the end


@pytest.mark.parametrize(
    ("after_ms", "is_late"), [(0, False), (WRITABLE_MS, False), (WRITABLE_MS + 1, True), (None, True)]
)
def test_ranges_that_are_writable_late_or_never(after_ms: int | None, is_late: bool) -> None:
    story = TopicStory()
    story.probe(after_ms)
    assert story.end().lies() == ({TopicLie.NOT_WRITABLE} if is_late else set())


def test_what_is_left_behind() -> None:
    story = TopicStory()
    story.notes.rest.leftovers.append("/segments/x")
    assert story.end().lies() == {TopicLie.LEFT_BEHIND}


COVERS: dict[str, tuple[set[int], dict[str, dict[int, bool]], bool]] = {
    "each has one": ({0}, {"a": {1: True}, "b": {2: True}}, True),
    "one has both, the other nothing": ({0}, {"a": {1: True, 2: True}, "b": {}}, True),
    "two share one": ({0}, {"a": {1: False}, "b": {1: False}, "c": {2: True}}, True),
    "the parent first": (set(), {"a": {0: True}, "b": {}}, True),
    "nobody has one": ({0}, {"a": {1: True}, "b": {}}, False),
    "two have one": ({0}, {"a": {1: True, 2: True}, "b": {1: True}}, False),
    "one has it, and another shares it": ({0}, {"a": {1: True, 2: True}, "b": {1: False}}, False),
    "one shares it with nobody": ({0}, {"a": {1: True, 2: False}}, False),
    "the drained parent": ({0}, {"a": {0: True, 1: True}, "b": {2: True}}, False),
    "the child before its time": (set(), {"a": {0: True, 1: True}}, False),
    "a segment that there is not": ({0}, {"a": {1: True, 2: True, 9: True}}, False),
}


@pytest.mark.parametrize("what", COVERS)
def test_divisions(what: str) -> None:
    drained, members, is_well = COVERS[what]
    story = TopicStory()
    story.split()
    story.told(drained, **members)
    assert story.end().lies() == (set() if is_well else {TopicLie.UNCOVERED})


def test_a_member_that_was_told_nothing() -> None:
    story = TopicStory()
    story.told(set(), a={0: True})
    story.notes.rest.members[TOPIC, "sub"] |= {"b"}
    assert story.end().lies() == {TopicLie.UNCOVERED}


# ---- segments are judged as well


def test_what_is_wrong_with_a_segment_is_found() -> None:
    story = TopicStory()
    story.segments.begin("t")
    story.send("a", txn="t")
    story.segments.abort("t")
    story.deliver("a")
    assert story.end().lies() == {Lie.ABORTED_READ}


def test_every_lie_is_told_somewhere_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [each.name for each in TopicLie if f"TopicLie.{each.name}" not in text] == []
