"""Names in paths: whatever characters they have, each is one part."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from support.admin_stage import SEGMENTS, TOPICS, Admin, Stage

NAMES = [
    "a/b",
    "/a",
    "a/",
    "a//b",
    "a/stats",
    "..",
    ".",
    "a%2Fb",
    "100%",
    "b c",
    "a+b",
    "a:b",
    "a?b=c&d",
    "a#b",
    "ünïcode-日本-🙂",
    "orders-partition-2",
    "tab\tand\nline",
]


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with Stage() as stage:
        yield stage.admin


def test_topics_are_what_they_are_called(admin: Admin) -> None:
    for name in NAMES:
        part = quote(name, safe="")
        assert admin.put(f"{TOPICS}/{part}", {"name": "strange"}).status == 204, name
        assert admin.post(f"{TOPICS}/{part}/split/0").status == 204, name
        found = admin.get(f"{TOPICS}/{part}/stats").json
        assert found["segments"]["1"]["name"] == f"segment://public/default/{name}/0000-7fff-1"
    wanted = sorted(f"topic://public/default/{name}" for name in NAMES)
    assert sorted(admin.get(f"{TOPICS}?property=name=strange").json) == wanted


def test_however_a_name_is_encoded_it_is_the_same(admin: Admin) -> None:
    assert admin.put(f"{TOPICS}/case%2fand%41").status == 204
    for spelling in ("case%2FandA", "%63ase%2Fand%41", "case%2fandA"):
        assert admin.get(f"{TOPICS}/{spelling}").status == 200, spelling
    assert admin.get("/admin/v2/scal%61ble/p%75blic/default/case%2FandA").status == 200


def test_a_slash_that_is_not_encoded_ends_the_name(admin: Admin) -> None:
    assert admin.put(f"{TOPICS}/outer").status == 204
    assert admin.get(f"{TOPICS}/outer/stats").status == 200
    assert admin.get(f"{TOPICS}/outer%2Fstats").error == "TopicNotFound"
    assert admin.get(f"{TOPICS}/outer/inner").error == "NoSuchPath"


def test_subscriptions_are_what_they_are_called(admin: Admin) -> None:
    assert admin.put(f"{TOPICS}/read").status == 204
    for name in NAMES:
        assert admin.put(f"{TOPICS}/read/subscriptions/{quote(name, safe='')}?type=QUEUE").status == 204, name
        assert admin.post(f"{TOPICS}/read/subscriptions/{quote(name, safe='')}/skip-all").status == 204, name
    assert set(admin.get(f"{TOPICS}/read/stats").json["subscriptions"]) == set(NAMES)
    for name in NAMES:
        assert admin.delete(f"{TOPICS}/read/subscriptions/{quote(name, safe='')}").status == 204, name
    assert admin.get(f"{TOPICS}/read/stats").json["subscriptions"] == {}


def test_segments_are_what_they_are_called(admin: Admin) -> None:
    for name in NAMES:
        path = f"{SEGMENTS}/{quote('alone ' + name, safe='')}/0000-ffff-0"
        assert admin.put(path, [name]).status == 204, name
        assert admin.get(f"{path}/subscription/{quote(name, safe='')}/backlog").json == 0
        assert admin.delete(path).status == 204


@pytest.mark.parametrize("path", [f"{TOPICS}/%FF", f"{TOPICS}/a%C3%28", "/%80"])
def test_what_is_no_text_is_refused(path: str, admin: Admin) -> None:
    answer = admin.get(path)
    assert (answer.status, answer.error) == (400, "InvalidPath")
