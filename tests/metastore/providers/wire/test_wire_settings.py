"""The URL of a store on the network, and its options."""

from __future__ import annotations

from pathlib import Path

import pytest

from metastore.dialling import Security
from metastore.interface.errors import InvalidUrl
from metastore.interface.urls import StoreUrl
from metastore.providers.wire.settings import (
    BATCH_BYTES_LIMIT,
    BATCH_OPERATIONS_LIMIT,
    LINGER_MS_MAX,
    OPTIONS,
    Settings,
    settings_of,
)

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "clients.md"


def settings(text: str) -> Settings:
    return settings_of(StoreUrl.parse(text))


def test_a_host_is_enough() -> None:
    found = settings("oxia://db")
    assert (found.addresses, found.namespace) == (("db:6648",), "default")
    assert found.key_sorting == "hierarchical"
    assert found.linger_s == 0
    assert not found.security.uses_tls


def test_everything_can_be_said() -> None:
    found = settings(
        "oxia://a:1,[::1]:2,c/audit?key_sorting=natural&ca_file=/ca&cert_file=/cert&key_file=/key&request_timeout=500ms"
        "&linger_ms=5&batch_operations_max=10&batch_bytes_max=1000&tls=true"
    )
    assert found.addresses == ("a:1", "[::1]:2", "c:6648")
    assert (found.namespace, found.key_sorting) == ("audit", "natural")
    assert found.security == Security(True, Path("/ca"), Path("/cert"), Path("/key"))
    assert (found.request_timeout_s, found.linger_s) == (0.5, 0.005)
    assert (found.batch_operations_max, found.batch_bytes_max) == (10, 1000)


@pytest.mark.parametrize(("text", "seconds"), [("2", 2.0), ("1.5s", 1.5), ("2m", 120.0), ("24h", 86_400.0)])
def test_timeouts_have_units(text: str, seconds: float) -> None:
    assert settings(f"oxia://db?request_timeout={text}").request_timeout_s == seconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("oxia://", "names no server"),
        ("oxia:///default", "names no server"),
        ("oxia://db:0", "port 0"),
        ("oxia://a,b c", "no server"),
        ("oxia://db/two/parts", "is no namespace"),
        ("oxia://db/..", "is no namespace"),
        ("oxia://db/a..b", "is no namespace"),
        ("oxia://db/-a", "is no namespace"),
        ("oxia://db?colour=blue", "unknown option 'colour'"),
        ("oxia://db?token=secret", "unknown option 'token'"),
        ("oxia://db?tls=yes", "tls is 'yes'"),
        ("oxia://db?key_sorting=random", "key_sorting is 'random'"),
        ("oxia://db?request_timeout=0", "request_timeout"),
        ("oxia://db?request_timeout=25h", "request_timeout"),
        ("oxia://db?request_timeout=soon", "request_timeout"),
        ("oxia://db?linger_ms=-1", "linger_ms"),
        (f"oxia://db?linger_ms={LINGER_MS_MAX + 1}", "linger_ms"),
        ("oxia://db?batch_operations_max=0", "batch_operations_max"),
        (f"oxia://db?batch_operations_max={BATCH_OPERATIONS_LIMIT + 1}", "batch_operations_max"),
        (f"oxia://db?batch_bytes_max={BATCH_BYTES_LIMIT + 1}", "batch_bytes_max"),
        ("oxia://db?cert_file=/cert", "give both"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(InvalidUrl, match=reason):
        settings(text)


def test_the_greatest_numbers_are_allowed() -> None:
    found = settings(
        f"oxia://db?linger_ms={LINGER_MS_MAX}&batch_operations_max={BATCH_OPERATIONS_LIMIT}"
        f"&batch_bytes_max={BATCH_BYTES_LIMIT}"
    )
    assert found.batch_operations_max == BATCH_OPERATIONS_LIMIT
    assert found.batch_bytes_max == BATCH_BYTES_LIMIT


def test_every_option_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [option for option in OPTIONS if f"`{option}`" not in text] == []
