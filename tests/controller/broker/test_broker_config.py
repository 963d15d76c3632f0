"""What a broker may be told, and how it refuses what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.broker.config import (
    NAME_BYTES_MAX,
    SESSION_TIMEOUT_MS_MAX,
    SESSION_TIMEOUT_MS_MIN,
    BrokerConfig,
    ConfigError,
    load_config,
)
from metastore.addresses import PORT_MAX

STORE = {"store": "memory://"}
PAIR = {"tls_cert_file": Path("cert.pem"), "tls_key_file": Path("key.pem")}


def refused(flags: dict[str, Any], *words: str) -> None:
    """Asserts that the flags are refused, with a text that has all the words."""
    with pytest.raises(ConfigError) as refusal:
        load_config(None, STORE | flags)
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize("address", ["", "host", ":1", "host:x", "::1:6650"])
def test_what_is_no_address(address: str) -> None:
    refused({"listen": address}, "listen", "HOST:PORT")


def test_a_broker_needs_a_store() -> None:
    with pytest.raises(ConfigError, match="store must be the URL"):
        load_config(None, {})


def test_an_open_store_needs_no_url() -> None:
    assert BrokerConfig().check(has_store=True).store == ""


@pytest.mark.parametrize("log", ["local", "metastore"])
def test_both_places_of_logs(log: str) -> None:
    assert load_config(None, STORE | {"log": log}).log == log


def test_other_places_of_logs_are_refused() -> None:
    refused({"log": "cloud"}, "local, metastore", "'cloud'")


def test_names_at_their_limit() -> None:
    assert load_config(None, STORE | {"name": "n" * NAME_BYTES_MAX}).name == "n" * NAME_BYTES_MAX
    refused({"name": "n" * (NAME_BYTES_MAX + 1)}, "name", str(NAME_BYTES_MAX))
    refused({"name": ""}, "name")
    refused({"name": "a/b"}, "name", "slashes")


def test_session_timeouts_at_their_limits() -> None:
    for allowed in (SESSION_TIMEOUT_MS_MIN, SESSION_TIMEOUT_MS_MAX):
        assert load_config(None, STORE | {"session_timeout_ms": allowed}).session_timeout_ms == allowed
    refused({"session_timeout_ms": SESSION_TIMEOUT_MS_MIN - 1}, "session-timeout-ms", str(SESSION_TIMEOUT_MS_MIN))
    refused({"session_timeout_ms": SESSION_TIMEOUT_MS_MAX + 1}, "session-timeout-ms", str(SESSION_TIMEOUT_MS_MAX))


def test_ports_at_their_limits() -> None:
    assert load_config(None, STORE | {"metrics_port": PORT_MAX}).metrics_port == PORT_MAX
    refused({"metrics_port": PORT_MAX + 1}, "metrics-port", str(PORT_MAX))
    refused({"metrics_port": -1}, "metrics-port")
    refused({"listen": "127.0.0.1:7000", "metrics_port": 7000}, "the same port")


def test_clients_must_know_where_to_go() -> None:
    refused({"advertise": "broker:0"}, "advertise", "not 0")
    refused({"advertise": "broker"}, "advertise", "HOST:PORT")
    refused({"listen": "0.0.0.0:6650", "insecure": True}, "--advertise")
    assert load_config(None, STORE | {"listen": "0.0.0.0:6650", "advertise": "b:6650", "insecure": True}).insecure


@pytest.mark.parametrize("protection", [PAIR, {"tokens_file": Path("tokens")}, {"insecure": True}])
def test_a_network_is_served_protected_or_by_request(protection: dict[str, Any]) -> None:
    refused({"listen": "10.0.0.1:6650"}, "open to the network", "--insecure")
    load_config(None, STORE | {"listen": "10.0.0.1:6650"} | protection)


def test_tls_takes_both_files() -> None:
    refused({"tls_cert_file": Path("cert.pem")}, "belong together")
    refused({"tls_key_file": Path("key.pem")}, "belong together")
    refused({"tls_client_ca_file": Path("ca.pem")}, "needs tls-cert-file")


# ---- the file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "broker.toml"


def test_a_file_says_the_same_and_flags_win(file: Path) -> None:
    file.write_text(
        'store = "lmdb:///data"\nlog = "metastore"\ndata-dir = "/segments"\nmetrics-port = 9\n'
        'tls-cert-file = "c"\ntls_key_file = "k"\ninsecure = true\n'
    )
    found = load_config(file, {"metrics_port": 10, "log": None})
    assert found == BrokerConfig(
        store="lmdb:///data",
        log="metastore",
        data_dir=Path("/segments"),
        metrics_port=10,
        tls_cert_file=Path("c"),
        tls_key_file=Path("k"),
        insecure=True,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stores = 1", ("unknown setting 'stores'", "session-timeout-ms")),
        ("store = 1", ("store", "of type str")),
        ('metrics-port = "9"', ("metrics-port", "of type int")),
        ("metrics-port = true", ("metrics-port", "of type int")),
        ("insecure = 1", ("insecure", "of type bool")),
        ("store =", ("cannot be read",)),
    ],
)
def test_what_a_file_may_not_say(text: str, words: tuple[str, ...], file: Path) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load_config(file, {})
    for word in (str(file), *words):
        assert word in str(refusal.value)


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(file, STORE)
