"""What a service may be told, and how it refuses what cannot be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from metastore.addresses import is_loopback, join_address
from metastore.directory import SHARDS_MAX, NamespaceConfig
from metastore.quantities import parse_duration_ms, parse_size_bytes
from metastore.server.config import (
    DEFAULT_METRICS_ADDRESS,
    DEFAULT_PUBLIC_ADDRESS,
    WORKERS_MAX,
    ConfigError,
    ServerConfig,
    load_config,
    split_address,
)

PAIR = {"tls_cert_file": Path("cert.pem"), "tls_key_file": Path("key.pem")}


def refused(flags: dict[str, Any], *words: str) -> None:
    """Asserts that the flags are refused, with a text that has all the words."""
    with pytest.raises(ConfigError) as refusal:
        load_config(None, flags)
    for word in words:
        assert word in str(refusal.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


# ---- values


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0s", 0),
        ("500ms", 500),
        ("90s", 90_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("7d", 604_800_000),
        ("1m1ms", 60_001),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "h", "-1h", "1 h", "1h ", "1w", "1h30", "1.h", ".5h", "1H"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1000", 1000),
        ("7B", 7),
        ("1KiB", 1024),
        ("512MiB", 512 << 20),
        ("10GiB", 10 << 30),
        ("2 TiB", 2 << 40),
    ],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1.5GiB", "1GB", "1G", "1 GiB more"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size_bytes(text)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("127.0.0.1:6648", "127.0.0.1", 6648), ("store.example:1", "store.example", 1), ("[::1]:65535", "::1", 65535)],
)
def test_addresses(address: str, host: str, port: int) -> None:
    assert split_address("public-addr", address) == (host, port)
    assert join_address(host, port) == address


@pytest.mark.parametrize(
    "address", ["", "host", ":1", "host:", "host:port", "host:65536", "host:-1", "::1:80", "host:²", "host:1_0", "[]:1"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ConfigError, match="public-addr must be HOST:PORT"):
        split_address("public-addr", address)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# ---- flags


def test_defaults() -> None:
    config = load_config(None, {"shards": None, "insecure": None})
    assert config == ServerConfig()
    assert (config.public_addr, config.metrics_addr) == (DEFAULT_PUBLIC_ADDRESS, DEFAULT_METRICS_ADDRESS)
    assert (config.retention_ms, config.quota_bytes, config.is_tls) == (3_600_000, None, False)
    assert config.wanted_namespaces() == (NamespaceConfig("default", 1, "hierarchical", True),)


def test_flags_shape_the_default_namespace() -> None:
    flags = {"shards": 3, "key_sorting": "natural", "notifications_enabled": False, "quota": "1MiB"}
    config = load_config(None, flags)
    assert config.wanted_namespaces() == (NamespaceConfig("default", 3, "natural", False),)
    assert config.quota_bytes == 1 << 20


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"shards": 0}, ("shards", "1", str(SHARDS_MAX), "got 0")),
        ({"shards": SHARDS_MAX + 1}, ("shards", str(SHARDS_MAX))),
        ({"workers": 0}, ("workers", str(WORKERS_MAX))),
        ({"workers": WORKERS_MAX + 1}, ("workers", str(WORKERS_MAX))),
        ({"key_sorting": "random"}, ("key-sorting", "hierarchical", "natural", "random")),
        ({"public_addr": "nowhere"}, ("public-addr", "nowhere")),
        ({"metrics_addr": "nowhere"}, ("metrics-addr", "nowhere")),
        ({"notifications_retention_time": "long"}, ("long", "duration")),
        ({"quota": "much"}, ("much", "size")),
        ({"quota": "0"}, ("quota", "positive")),
        ({"tls_cert_file": Path("cert.pem")}, ("tls-cert-file", "tls-key-file")),
        ({"tls_key_file": Path("key.pem")}, ("tls-cert-file", "tls-key-file")),
        ({"tls_client_ca_file": Path("ca.pem")}, ("tls-client-ca-file", "tls-cert-file")),
    ],
)
def test_settings_that_cannot_be(flags: dict[str, Any], words: tuple[str, ...]) -> None:
    refused(flags, *words)


# ---- exposure

OPEN = {"public_addr": "0.0.0.0:6648"}


@pytest.mark.parametrize("address", ["0.0.0.0:6648", "[::]:6648", "10.1.2.3:6648", "store.example:6648"])
def test_the_network_is_not_served_by_accident(address: str) -> None:
    refused({"public_addr": address}, address, "--tls-cert-file", "--tokens-file", "--insecure")
    refused({"public_addr": address, "insecure": False}, "--insecure")


@pytest.mark.parametrize("protection", [PAIR, {"tokens_file": Path("tokens")}, {"insecure": True}])
def test_the_network_is_served_with_protection_or_on_demand(protection: dict[str, Any]) -> None:
    assert load_config(None, OPEN | protection).public_addr == OPEN["public_addr"]


# ---- ports of workers


@pytest.mark.parametrize(
    ("public", "metrics", "workers", "meeting"),
    [
        ("127.0.0.1:7000", "127.0.0.1:7000", 1, 7000),
        ("127.0.0.1:7000", "127.0.0.1:7003", 4, 7003),
        ("127.0.0.1:7003", "127.0.0.1:7000", 4, 7003),
        ("127.0.0.1:7000", "0.0.0.0:7001", 2, 7001),
    ],
)
def test_public_and_metrics_ports_keep_apart(public: str, metrics: str, workers: int, meeting: int) -> None:
    refused(
        {"public_addr": public, "metrics_addr": metrics, "workers": workers},
        f"public-addr {public}",
        f"metrics-addr {metrics}",
        f"port {meeting}:",
    )


@pytest.mark.parametrize(
    ("public", "metrics", "workers"),
    [
        ("127.0.0.1:7000", "127.0.0.1:7004", 4),
        ("127.0.0.1:7000", "127.0.0.2:7001", 4),
        ("127.0.0.1:7000", "127.0.0.1:0", 4),
        ("127.0.0.1:0", "127.0.0.1:0", 1),
        ("127.0.0.1:65534", "127.0.0.1:7000", 2),
    ],
)
def test_ports_that_do_not_meet(public: str, metrics: str, workers: int) -> None:
    config = load_config(None, {"public_addr": public, "metrics_addr": metrics, "workers": workers})
    assert (config.public_addr, config.metrics_addr) == (public, metrics)


def test_every_worker_has_a_port_that_exists_and_is_known() -> None:
    refused({"public_addr": "127.0.0.1:65535", "workers": 2}, "public-addr", "65535 to 65536")
    refused({"metrics_addr": "127.0.0.1:65535", "workers": 2}, "metrics-addr", "65535 to 65536")
    refused({"public_addr": "127.0.0.1:0", "workers": 2}, "public-addr", "not 0")
    refused({"public_addr": "127.0.0.1:0", "advertise": "store.example"}, "public-addr", "not 0")


def test_workers_on_all_addresses_need_a_host_to_be_found_by() -> None:
    everywhere = {"public_addr": "0.0.0.0:7000", "insecure": True, "workers": 2}
    refused(everywhere, "--advertise")
    assert load_config(None, everywhere | {"advertise": "store.example"}).workers == 2


# ---- files

FILE = """
public-addr = "127.0.0.1:7000"
data_dir = "somewhere"
workers = 2
sync-data = false

[[namespaces]]
name = "default"
shards = 4

[[namespaces]]
name = "other"
key_sorting = "natural"
notifications = false
"""


def test_a_file_says_what_flags_cannot(file: Path) -> None:
    file.write_text(FILE)
    config = load_config(file, {"workers": 1, "quota": None})
    assert (config.public_addr, config.data_dir) == ("127.0.0.1:7000", Path("somewhere"))
    assert (config.workers, config.sync_data) == (1, False)
    assert config.wanted_namespaces() == (
        NamespaceConfig("default", 4, "hierarchical", True),
        NamespaceConfig("other", 1, "natural", False),
    )


@pytest.mark.parametrize("flag", [{"shards": 2}, {"key_sorting": "natural"}, {"notifications_enabled": True}])
def test_flags_do_not_shape_the_namespaces_of_a_file(file: Path, flag: dict[str, Any]) -> None:
    file.write_text(FILE)
    with pytest.raises(ConfigError, match=re.escape("[[namespaces]]")):
        load_config(file, flag)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour = 1", ("unknown setting 'colour'", "public-addr")),
        ("[[namespaces]]\ncolour = 1", ("[[namespaces]]", "unknown setting 'colour'", "key-sorting")),
        ("shards = '4'", ("shards", "int", "'4'")),
        ("shards = true", ("shards", "int", "True")),
        ("insecure = 1", ("insecure", "bool", "1")),
        ("public-addr = 6648", ("public-addr", "str", "6648")),
        ("data-dir = ['x']", ("data-dir", "str")),
        ("[[namespaces]]\nshards = 0", ("shards of namespace default", "got 0")),
        ("[[namespaces]]\nkey_sorting = 'random'", ("key_sorting of namespace default", "random")),
        ("[[namespaces]]\nname = 'a/b'", ("'a/b'",)),
        ("[[namespaces]]\nname = 'a..b'", ("'a..b'",)),
        ("[[namespaces]]\nname = ''", ("''",)),
        ("[[namespaces]]\n[[namespaces]]", ("twice",)),
        ("namespaces = 3", ("[[namespaces]]",)),
        ("namespaces = ['default']", ("[[namespaces]]",)),
        ("[namespaces]\nname = 'default'", ("[[namespaces]]",)),
        ("shards 4\nworkers = 2", ("settings.toml", "line 1")),
    ],
)
def test_a_file_that_cannot_be(file: Path, text: str, words: tuple[str, ...]) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load_config(file, {})
    for word in words:
        assert word in str(refusal.value)


def test_a_file_that_cannot_be_read(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"settings\.toml"):
        load_config(file, {})
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"settings\.toml"):
        load_config(file, {})
