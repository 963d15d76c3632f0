"""Names of topics and segments: as recorded, and where ours differ on purpose."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.layout import Domain, HashRange, InvalidName, LayoutError, NamespaceName, SegmentName, TopicName
from controller.layout.names import decoded, encoded
from support.vectors import cases


def facts(text: str) -> dict[str, Any] | None:
    """What ours says of a name; None if it refuses it."""
    try:
        segment = SegmentName.parse(text) if text.lower().startswith("segment://") else None
        topic = TopicName.parse(text) if segment is None else segment.topic
    except LayoutError:
        return None
    name = topic if segment is None else segment
    return {
        "full": str(name),
        "domain": (topic.domain if segment is None else Domain.SEGMENT).value,
        "local": topic.local,
        "partition": -1 if segment is not None or topic.partition is None else topic.partition,
        "base": str(topic.base if segment is None else name),
        "storage": name.storage,
        "scalable": str(topic.scalable),
        "path": topic.path,
    }


def topic_local(theirs: dict[str, Any]) -> str:
    """The local name of the topic that a partition is one of."""
    local = theirs["local"]
    assert isinstance(local, str)
    return local[: local.rindex("-partition-")]


def test_names_are_read_as_recorded() -> None:
    """What differs: the domain has one form; names are encoded once (H21); a segment is no partition (H21); descriptors
    have one form, in which letter case alone is free; a partition of a topic has that topic's path.
    """
    counts = Counter[str]()
    for case in cases("names"):
        text, theirs = case["input"], case["result"].get("ok")
        ours = facts(text)
        if theirs is None:
            assert ours is None, text
            counts["refused"] += 1
            continue
        if ours is None:
            descriptor = text.rpartition("/")[2]
            assert text.startswith("segment://")
            assert "+" in descriptor or descriptor[-1] == "-" or "00000" in descriptor
            counts["lax"] += 1
            continue
        counts["read"] += 1
        domain, mark, rest = theirs["full"].partition("://")
        assert ours["full"] == domain.lower() + mark + rest
        assert all(ours[name] == theirs[name] for name in ("domain", "local", "storage"))
        if theirs["domain"] == "segment":
            assert ours["partition"] == -1
            continue
        assert ours["partition"] == theirs["partition"]
        if theirs["partition"] < 0 or theirs["domain"] == "topic":
            assert ours["path"] == theirs["path"]
        else:
            parent = TopicName.parse(theirs["base"]).parent
            assert ours["path"] == f"{parent.path}/{encoded(topic_local(theirs))}"
        if theirs["domain"] != "topic":
            assert decoded(theirs["scalable"].rpartition("/")[2]) == ours["scalable"].split("/", 4)[4]
    assert counts["read"] > 200
    assert counts["refused"] > 200
    assert counts["lax"] < 10


def test_paths_of_segments_are_as_recorded() -> None:
    for case in cases("paths"):
        wanted = case["result"]["ok"]
        topic = TopicName.parse(case["topic"])
        name = topic.segment(HashRange(*case["range"]), case["id"])
        assert (str(name), name.descriptor, topic.path) == (
            wanted["segmentName"],
            wanted["descriptor"],
            wanted["topicPath"],
        )
        assert encoded(topic.local) == wanted["encoded"]
        assert decoded(wanted["encoded"]) == topic.local
        assert SegmentName.parse(str(name)) == name
        assert SegmentName.of_storage(name.storage) == name


def test_h21_a_name_is_encoded_once_whatever_its_domain() -> None:
    old, new = TopicName.parse("persistent://t/ns/a:b"), TopicName.parse("topic://t/ns/a:b")
    assert old.scalable == new
    assert old.path == new.path == "/topics/t/ns/a%3Ab"


def test_h21_a_topic_called_like_a_partition_has_segments_of_its_own() -> None:
    name = TopicName.parse("topic://t/ns/x-partition-2").segment(HashRange(0, 0xFFFF), 0)
    assert SegmentName.parse(str(name)).topic == TopicName.parse("topic://t/ns/x-partition-2")
    assert name.topic.path == "/topics/t/ns/x-partition-2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topic://t", "topic://TENANT/NAMESPACE/TOPIC"),
        ("topic://t/ns/", "topic://TENANT/NAMESPACE/TOPIC"),
        ("topic://t/ns/ ", "must not be blank"),
        ("queue://t/ns/x", "topic, segment, persistent, non-persistent"),
        ("a/b", "TENANT/NAMESPACE/TOPIC or TOPIC"),
        ("topic://a b/ns/x", "letters, digits"),
        ("segment://t/ns/x/0000-ffff-0", "name of a segment"),
        ("persistent://t/ns/a/b", "slashes"),
        ("topic://t/ns/" + "x" * 5_000, "at most 4096"),
    ],
)
def test_what_is_no_name_is_refused_with_what_is_expected(text: str, says: str) -> None:
    with pytest.raises(InvalidName, match=says):
        TopicName.parse(text)


@pytest.mark.parametrize("text", ["x", "t/ns/x", "persistent://t/ns/x", "topic://t/ns/x", "topic://t/ns/x-partition-3"])
def test_what_may_be_used_is_a_scalable_topic(text: str) -> None:
    assert TopicName.parse(text).for_use() == TopicName.parse(text).scalable


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("non-persistent://t/ns/x", "non-persistent topics are not supported; topic://t/ns/x keeps"),
        ("non-persistent://t/ns/x-partition-3", "non-persistent topics are not supported"),
        ("persistent://t/ns/x-partition-3", "individual partition: name the topic, topic://t/ns/x"),
        ("x-partition-0", "individual partition: name the topic, topic://public/default/x"),
    ],
)
def test_what_may_not_be_used_is_said_with_what_may(text: str, says: str) -> None:
    """V1: what is sent to one that keeps nothing would be kept here, and a partition's would go to all of the topic."""
    with pytest.raises(InvalidName, match=says):
        TopicName.parse(text).for_use()


@pytest.mark.parametrize(
    "text", ["topic://t/n/x", "segment://t/n/x", "segment://t/n/x/0000-ffff", "segment://t/n/x/g-1-0"]
)
def test_what_is_no_segment_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="expected|Expected"):
        SegmentName.parse(text)


def test_old_topics_have_no_segments() -> None:
    with pytest.raises(InvalidName, match="scalable"):
        TopicName.parse("persistent://t/ns/x").segment(HashRange(0, 1), 0)


def test_namespaces_have_two_parts() -> None:
    assert NamespaceName.parse("t/ns").path == "/topics/t/ns"
    for text in ("t", "t/ns/x", "t/", "t/a b"):
        with pytest.raises(InvalidName):
            NamespaceName.parse(text)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)


@given(names, names)
def test_different_topics_never_share_a_path(left: str, right: str) -> None:
    paths = [TopicName(Domain.TOPIC, NamespaceName("t", "ns"), local).path for local in (left, right)]
    assert (paths[0] == paths[1]) == (left == right)
    assert paths[0].count("/") == 4


@given(names, st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 2**63 - 1))
def test_segment_names_are_read_as_they_were_written(local: str, one: int, other: int, segment_id: int) -> None:
    topic = TopicName(Domain.TOPIC, NamespaceName("t", "ns"), local)
    name = topic.segment(HashRange(min(one, other), max(one, other)), segment_id)
    assert SegmentName.parse(str(name)) == SegmentName.of_storage(name.storage) == name
