"""URLs of stores on ZooKeeper."""

from __future__ import annotations

import pytest

from metastore.interface import InvalidUrl, StoreUrl
from metastore.providers.zookeeper.limits import ROOT_CHARACTERS_MAX
from metastore.providers.zookeeper.settings import Settings


def settings(text: str) -> Settings:
    return Settings.of(StoreUrl.parse(text))


def test_a_url_names_servers_and_a_path() -> None:
    assert settings("zk://h/p") == Settings(("h:2181",), "/p", None, 30.0)
    assert settings("zk://a:1,b,[::1]:3/x/y/") == Settings(("a:1", "b:2181", "[::1]:3"), "/x/y", None)
    assert settings("zk://h/p?key_sorting=natural&request_timeout=500ms") == Settings(("h:2181",), "/p", "natural", 0.5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("zk://h", "no path"),
        ("zk://h/", "no path"),
        ("zk://h//p", "no path"),
        ("zk://h/a/../b", "no path"),
        ("zk://h/zookeeper/x", "no path"),
        ("zk://h/%C3%A9", "no path"),
        ("zk://h/a%20b", "no path"),
        ("zk:///p", "HOST:PORT"),
        ("zk://h:0/p", "HOST:PORT"),
        ("zk://h/p?key_sorting=odd", "key_sorting"),
        ("zk://h/p?request_timeout=soon", "request_timeout"),
        ("zk://h/p?request_timeout=0s", "request_timeout"),
        ("zk://h/p?request_timeout=25h", "request_timeout"),
        ("zk://h/p?shards=2", "unknown option 'shards'"),
        ("zk://h/" + "p" * ROOT_CHARACTERS_MAX, "ROOT_CHARACTERS_MAX"),
    ],
)
def test_a_url_that_says_something_else_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidUrl, match=complaint):
        settings(text)


def test_the_longest_path_is_taken() -> None:
    root = "/" + "p" * (ROOT_CHARACTERS_MAX - 1)
    assert settings(f"zk://h{root}").root == root
