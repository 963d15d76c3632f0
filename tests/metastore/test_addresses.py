"""URLs that name several servers, and hosts in brackets, wherever they stand."""

from __future__ import annotations

import pytest

from metastore.addresses import split_url


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("oxia://a:1", [("a", 1)]),
        ("oxia://[::1]:1,b", [("::1", 1), ("b", None)]),
        ("oxia://a:1,[::1]:2,[fe80::2]/x?y=z", [("a", 1), ("::1", 2), ("fe80::2", None)]),
        ("oxia://a,/x", [("a", None), (None, None)]),
        ("lmdb:///a,b", [(None, None)]),
        ("no url", [(None, None)]),
    ],
)
def test_a_url_is_split_into_one_of_each_server(url: str, servers: list[tuple[str | None, int | None]]) -> None:
    assert [(each.hostname, each.port) for each in split_url(url)] == servers


def test_all_but_the_server_is_the_same() -> None:
    first, second = split_url("oxia://[::1]:1,b:2/a,b/c?d=e,f://g,h#i")
    assert first._replace(netloc="b:2") == second
    assert (second.scheme, second.path, second.query, second.fragment) == ("oxia", "/a,b/c", "d=e,f://g,h", "i")


def test_what_is_no_host_is_refused() -> None:
    with pytest.raises(ValueError, match="IPv6"):
        split_url("oxia://a:1,[::1/x")
