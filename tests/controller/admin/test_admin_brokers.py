"""Two brokers, each with an admin service: any of them answers everything, whoever leads a topic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.admin_stage import NAMESPACES, SEGMENTS, TOPICS, Stage

TOPICS_MADE = 6


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(2) as stage:
        for number in range(TOPICS_MADE):
            assert stage.admins[number % 2].put(f"{TOPICS}/shared-{number}").status == 204
        yield stage


def test_both_show_the_same(stage: Stage) -> None:
    lists = [admin.get(TOPICS).json for admin in stage.admins]
    assert lists[0] == lists[1]
    assert len(lists[0]) == TOPICS_MADE


def test_whoever_is_asked_does_it(stage: Stage) -> None:
    for number in range(TOPICS_MADE):
        path = f"{TOPICS}/shared-{number}"
        for admin, segment in zip(stage.admins, (0, 1), strict=True):
            assert admin.post(f"{path}/split/{segment}").status == 204
            assert admin.put(f"{path}/subscriptions/of-{segment}").status == 204
        stats = [admin.get(f"{path}/stats").json for admin in stage.admins]
        assert stats[0]["leader"] == stats[1]["leader"]
        assert set(stats[0]["subscriptions"]) == set(stats[1]["subscriptions"]) == {"of-0", "of-1"}
        assert [each["epoch"] >= 2 for each in stats] == [True, True]
        assert [admin.get(f"{path}/explain").status for admin in stage.admins] == [200, 200]


def test_segments_are_reached_wherever_they_are_owned(stage: Stage) -> None:
    for number in range(TOPICS_MADE):
        path = f"{SEGMENTS}/alone-{number}/0000-ffff-0"
        one, other = stage.admins[number % 2], stage.admins[1 - number % 2]
        assert one.put(path, ["s"]).status == 204
        assert other.get(f"{path}/subscription/s/backlog").json == 0
        assert other.post(f"{path}/terminate").status == 204
        assert one.delete(path).status == 204


def test_what_a_namespace_says_holds_everywhere(stage: Stage) -> None:
    first, second = stage.admins
    assert first.post(f"{NAMESPACES}/scalableTopicAutoScalePolicy", {"maxSegments": 9}).status == 204
    assert second.get(f"{NAMESPACES}/scalableTopicAutoScalePolicy").json == {"maxSegments": 9}
