"""Every call, with what it answers: paths, codes and JSON as Pulsar's admin service has them, and ours beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.admin_stage import JSON, NAMESPACES, SEGMENTS, TOPICS, Admin, Stage

FOR_EVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    """Sealed segments are kept, so that tests see them."""
    with Stage() as stage:
        assert stage.admin.post(f"{NAMESPACES}/retention", FOR_EVER).status == 204
        yield stage.admin


def created(admin: Admin, topic: str, segments: int = 1, properties: Any = None) -> str:
    """The path of a new topic."""
    path = f"{TOPICS}/{topic}"
    answer = admin.put(f"{path}?numInitialSegments={segments}", properties)
    assert (answer.status, answer.body) == (204, b"")
    return path


# -- topics


def test_a_new_topic_has_its_segments_and_properties(admin: Admin) -> None:
    path = created(admin, "new", 3, {"team": "billing"})
    record = admin.get(path).json
    assert (record["epoch"], record["nextSegmentId"], record["properties"]) == (0, 3, {"team": "billing"})
    assert [each["hashRange"]["start"] for each in record["segments"].values()] == [0, 21845, 43690]
    assert "autoScalePolicy" not in record


def test_a_topic_without_anything_said_has_one_segment(admin: Admin) -> None:
    nothing: list[dict[str, Any]] = [{}, {"raw": b""}, {"raw": b"null", "headers": JSON}]
    for number, options in enumerate(nothing):
        assert admin.put(f"{TOPICS}/plain-{number}", **options).status == 204
        assert list(admin.record(f"plain-{number}")["segments"]) == ["0"]


def test_topics_are_listed_by_their_properties(admin: Admin) -> None:
    for number in range(3):
        created(admin, f"listed-{number}", 1, {"list": "yes", "number": str(number)})
    names = [f"topic://public/default/listed-{number}" for number in range(3)]
    assert admin.get(f"{TOPICS}?property=list=yes").json == names
    assert admin.get(f"{TOPICS}?property=list=yes&property=number=1").json == names[1:2]
    assert admin.get(f"{TOPICS}?property=number%3D1&property=list=no").json == []
    assert set(names) <= set(admin.get(TOPICS).json)
    assert admin.get("/admin/v2/scalable/public/nobody").json == []


def test_properties_are_replaced_as_a_whole(admin: Admin) -> None:
    path = created(admin, "properties", 1, {"a": "1", "b": "2"})
    assert admin.put(f"{path}/properties", {"b": "3"}).status == 204
    assert admin.get(f"{path}/properties").json == {"b": "3"}
    assert admin.record("properties")["properties"] == {"b": "3"}


@pytest.mark.parametrize("force", ["", "?force=true", "?force=false"])
def test_a_deleted_topic_is_gone(force: str, admin: Admin) -> None:
    path = created(admin, "deleted")
    assert admin.delete(path + force).status == 204
    assert admin.get(path).error == "TopicNotFound"
    assert admin.delete(path + force).error == "TopicNotFound"


# -- segments


def test_a_split_and_merges(admin: Admin) -> None:
    path = created(admin, "shape")
    assert admin.post(f"{path}/split/0").status == 204
    assert admin.record("shape")["segments"]["0"]["childIds"] == [1, 2]
    assert admin.post(f"{path}/split/1").status == 204
    assert admin.post(f"{path}/merge/4/2").status == 204
    assert admin.record("shape")["segments"]["5"]["parentIds"] == [4, 2]
    assert admin.get(f"{path}/segmentCounts").json == {"activeSegments": 2, "sealedSegments": 4, "totalSegments": 6}


def test_any_number_of_neighbours_is_merged_at_once(admin: Admin) -> None:
    path = created(admin, "many", 5)
    assert admin.post(f"{path}/merge?segmentId=1&segmentId=2&segmentId=3&segmentId=0").status == 204
    assert admin.record("many")["segments"]["5"]["parentIds"] == [1, 2, 3, 0]


# -- what is said of scaling and retention


@pytest.mark.parametrize("path", [f"{TOPICS}/policy/autoScalePolicy", f"{NAMESPACES}/scalableTopicAutoScalePolicy"])
def test_a_policy_is_said_and_taken_back(path: str, admin: Admin) -> None:
    if path.startswith(TOPICS):
        created(admin, "policy")
    assert (admin.get(path).status, admin.get(path).body) == (204, b"")
    said = {"enabled": False, "maxSegments": 8, "splitMsgRateInThreshold": 2500.5, "mergeWindowSeconds": None}
    assert admin.post(path, said).status == 204
    assert admin.get(path).json == {name: value for name, value in said.items() if value is not None}
    assert admin.delete(path).status == 204
    assert admin.get(path).status == 204


def test_a_topics_policy_stands_in_its_record_and_holds_above_its_namespaces(admin: Admin) -> None:
    path = created(admin, "above")
    namespace = f"{NAMESPACES}/scalableTopicAutoScalePolicy"
    assert admin.post(namespace, {"maxSegments": 16, "minSegments": 2}).status == 204
    assert admin.post(f"{path}/autoScalePolicy", {"maxSegments": 8}).status == 204
    assert admin.record("above")["autoScalePolicy"] == {"maxSegments": 8}
    assert admin.delete(namespace).status == 204


def test_a_retention_is_said_and_taken_back(admin: Admin) -> None:
    path = "/admin/v2/namespaces/public/kept/retention"
    assert admin.get(path).status == 204
    for said in (
        {"retentionTimeInMinutes": 90, "retentionSizeInMB": -1},
        {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
    ):
        assert admin.post(path, said).status == 204
        assert admin.get(path).json == said
    assert admin.delete(path).status == 204
    assert admin.get(path).status == 204


# -- subscriptions


def test_subscriptions_are_made_moved_and_deleted(admin: Admin) -> None:
    path = created(admin, "read", 2)
    for kind in ("STREAM", "QUEUE", "CHECKPOINT"):
        for _ in range(2):
            assert admin.put(f"{path}/subscriptions/{kind.lower()}?type={kind}&start=latest").status == 204
    assert admin.put(f"{path}/subscriptions/by-itself").status == 204
    kinds = {name: each["type"] for name, each in admin.get(f"{path}/stats").json["subscriptions"].items()}
    assert kinds == {"stream": "STREAM", "queue": "QUEUE", "checkpoint": "CHECKPOINT", "by-itself": "STREAM"}
    assert admin.post(f"{path}/subscriptions/queue/seek?timestamp=0").status == 204
    assert admin.post(f"{path}/subscriptions/queue/skip-all").status == 204
    for _ in range(2):
        assert admin.delete(f"{path}/subscriptions/queue").status == 204
    assert "queue" not in admin.get(f"{path}/stats").json["subscriptions"]


# -- single segments


def test_a_segment_by_itself(admin: Admin) -> None:
    path = f"{SEGMENTS}/alone/0000-ffff-7"
    for _ in range(2):
        assert admin.put(path, ["billing"]).status == 204
    assert admin.get(f"{path}/subscription/billing/backlog").body == b"0"
    assert admin.put(f"{path}/subscription/audit").status == 204
    assert admin.post(f"{path}/subscription/audit/seek?timestamp=5").status == 204
    assert admin.post(f"{path}/subscription/audit/skip-all").status == 204
    for _ in range(2):
        assert admin.delete(f"{path}/subscription/audit").status == 204
    assert admin.get(f"{path}/subscription/audit/backlog").error == "SubscriptionNotFound"
    assert admin.post(f"{path}/terminate").status == 204
    for _ in range(2):
        assert admin.delete(f"{path}?force=true").status == 204
    assert admin.post(f"{path}/terminate").error == "NoSuchSegment"


# -- views


def test_the_stats_of_a_topic(admin: Admin) -> None:
    path = created(admin, "stats", 2)
    assert admin.put(f"{path}/subscriptions/billing").status == 204
    assert admin.post(f"{path}/split/0").status == 204
    found = admin.get(f"{path}/stats").json
    assert (found["totalSegments"], found["activeSegments"], found["sealedSegments"]) == (4, 3, 1)
    assert (found["leader"]["broker"], found["operationUnderWay"]) == ("broker-0", False)
    assert found["effectiveAutoScalePolicy"]["maxSegments"] == 64
    assert found["effectiveRetentionMinutes"] == -1
    segment = found["segments"]["2"]
    assert (segment["name"], segment["state"]) == ("segment://public/default/stats/0000-3fff-2", "ACTIVE")
    assert (segment["backlog"], segment["owner"]["broker"]) == ({"billing": 0}, "broker-0")
    assert found["subscriptions"]["billing"] == {
        "type": "STREAM",
        "consumerCount": 0,
        "backlog": 0,
        "generation": found["subscriptions"]["billing"]["generation"],
        "consumers": [],
    }


def test_the_explanation_of_a_topic(admin: Admin) -> None:
    path = created(admin, "explained", 2)
    found = admin.get(f"{path}/explain").json
    assert found["now"]["action"] == "none"
    assert found["now"]["notes"]
    assert "elected" in [trigger for entry in found["log"] for trigger in entry["triggers"]]


# -- what is refused


REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("GET", f"{TOPICS}/absent", None, 404, "TopicNotFound"),
    ("GET", f"{TOPICS}/absent/stats", None, 404, "TopicNotFound"),
    ("GET", f"{TOPICS}/absent/explain", None, 404, "TopicNotFound"),
    ("GET", f"{TOPICS}/absent/segmentCounts", None, 404, "TopicNotFound"),
    ("GET", f"{TOPICS}/absent/properties", None, 404, "TopicNotFound"),
    ("GET", f"{TOPICS}/absent/autoScalePolicy", None, 404, "TopicNotFound"),
    ("PUT", f"{TOPICS}/absent/properties", {}, 404, "TopicNotFound"),
    ("PUT", f"{TOPICS}/absent/subscriptions/s", None, 404, "TopicNotFound"),
    ("DELETE", f"{TOPICS}/absent/subscriptions/s", None, 404, "TopicNotFound"),
    ("POST", f"{TOPICS}/absent/subscriptions/s/skip-all", None, 404, "TopicNotFound"),
    ("POST", f"{TOPICS}/absent/split/0", None, 404, "TopicNotFound"),
    ("POST", f"{TOPICS}/absent/merge/0/1", None, 404, "TopicNotFound"),
    ("POST", f"{TOPICS}/absent/migrate", None, 404, "TopicNotFound"),
    ("POST", f"{TOPICS}/there/migrate?force=true", None, 409, "TopicExists"),
    ("PUT", f"{TOPICS}/there", None, 409, "TopicExists"),
    ("PUT", f"{TOPICS}/none?numInitialSegments=0", None, 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/none?numInitialSegments=1001", None, 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/none?numInitialSegments=one", None, 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/%20blank", None, 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/blank%20", None, 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/%20", None, 412, "InvalidName"),
    ("PUT", f"{TOPICS}/none", {"": "x"}, 412, "InvalidTopic"),
    ("PUT", f"{TOPICS}/none", {"x": 1}, 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/none", [], 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/{'n' * 5000}", None, 412, "InvalidName"),
    ("PUT", "/admin/v2/scalable/pub%20lic/default/none", None, 412, "InvalidRequest"),
    ("GET", f"{TOPICS}?property=x", None, 412, "InvalidRequest"),
    ("GET", f"{TOPICS}?property=x=1&property=x=2", None, 412, "InvalidRequest"),
    ("POST", f"{TOPICS}/there/split/99", None, 404, "SegmentNotFound"),
    ("POST", f"{TOPICS}/there/split/0", None, 412, "SegmentInWrongState"),
    ("POST", f"{TOPICS}/there/split/first", None, 412, "InvalidRequest"),
    ("POST", f"{TOPICS}/there/split/{1 << 63}", None, 412, "InvalidRequest"),
    ("POST", f"{TOPICS}/there/merge/3/5", None, 412, "InvalidRange"),
    ("POST", f"{TOPICS}/there/merge/3/3", None, 412, "LayoutError"),
    ("POST", f"{TOPICS}/there/merge/3/99", None, 404, "SegmentNotFound"),
    ("POST", f"{TOPICS}/there/merge?segmentId=3", None, 412, "InvalidRequest"),
    ("POST", f"{TOPICS}/there/autoScalePolicy", {"maxSegments": 1, "minSegments": 2}, 412, "InvalidAutoScale"),
    ("POST", f"{TOPICS}/there/autoScalePolicy", {"maxSegmants": 1}, 412, "InvalidAutoScale"),
    ("POST", f"{TOPICS}/there/autoScalePolicy", {"maxSegments": "many"}, 412, "InvalidAutoScale"),
    ("POST", f"{TOPICS}/there/autoScalePolicy", None, 412, "InvalidRequest"),
    (
        "POST",
        f"{NAMESPACES}/scalableTopicAutoScalePolicy",
        {"mergeBytesRateInThreshold": 1e12},
        412,
        "InvalidAutoScale",
    ),
    ("POST", f"{NAMESPACES}/retention", {"retentionTimeInMinutes": 5, "retentionSizeInMB": 7}, 412, "InvalidRequest"),
    ("POST", f"{NAMESPACES}/retention", {"retentionTimeInMinutes": 5, "retentionSizeInMB": 0}, 412, "InvalidTopic"),
    ("POST", f"{NAMESPACES}/retention", {"retentionTimeInMinutes": -2}, 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/there/subscriptions/known?type=QUEUE", None, 409, "WrongKind"),
    ("PUT", f"{TOPICS}/there/subscriptions/s?type=FAILOVER", None, 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/there/subscriptions/s?start=then", None, 412, "InvalidRequest"),
    ("PUT", f"{TOPICS}/there/subscriptions/%20", None, 412, "InvalidName"),
    ("POST", f"{TOPICS}/there/subscriptions/s/seek?timestamp=0", None, 404, "SubscriptionNotFound"),
    ("POST", f"{TOPICS}/there/subscriptions/known/seek", None, 412, "InvalidRequest"),
    ("POST", f"{TOPICS}/there/subscriptions/known/seek?timestamp=-1", None, 412, "InvalidRequest"),
    ("POST", f"{TOPICS}/there/subscriptions/points/skip-all", None, 409, "WrongKind"),
    ("PUT", f"{SEGMENTS}/alone/whole", None, 412, "InvalidRequest"),
    ("PUT", f"{SEGMENTS}/alone/ffff-0000-1", None, 412, "InvalidRange"),
    ("PUT", f"{SEGMENTS}/alone/0000-ffff-{1 << 63}", None, 412, "InvalidName"),
    ("PUT", f"{SEGMENTS}/alone/0000-ffff-1", {"not": "names"}, 412, "InvalidRequest"),
    ("POST", f"{SEGMENTS}/alone/0000-ffff-1/terminate", None, 404, "NoSuchSegment"),
    ("PUT", f"{SEGMENTS}/alone/0000-ffff-1/subscription/s", None, 404, "NoSuchSegment"),
    ("GET", f"{SEGMENTS}/alone/0000-ffff-1/subscription/s/backlog", None, 404, "SubscriptionNotFound"),
    ("POST", f"{SEGMENTS}/alone/0000-ffff-1/subscription/s/skip-all", None, 404, "SubscriptionNotFound"),
]


@pytest.fixture(scope="module")
def there(admin: Admin) -> Admin:
    """With a topic whose segment 0 is split in two, of which the first again; active are 3, 4 and 2, and 5 and 6."""
    path = created(admin, "there")
    for segment in (0, 1, 2):
        assert admin.post(f"{path}/split/{segment}").status == 204
    assert admin.put(f"{path}/subscriptions/known?type=STREAM").status == 204
    assert admin.put(f"{path}/subscriptions/points?type=CHECKPOINT").status == 204
    return admin


@pytest.mark.parametrize(("method", "path", "body", "status", "error"), REFUSED, ids=lambda value: str(value)[-60:])
def test_what_cannot_be_is_refused_by_name(
    method: str, path: str, body: Any, status: int, error: str, there: Admin
) -> None:
    answer = there.ask(method, path, body)
    assert (answer.status, answer.error) == (status, error), answer
