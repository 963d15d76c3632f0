"""What a connection proves and demands, and how options say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from metastore.clock import ManualClock
from metastore.dialling import SECURITY_OPTIONS, TOKEN_RECHECK_S, Security, TokenSource


class Unusable(Exception):
    """What the dialler's owner calls a file that cannot be used."""


def test_every_option_is_read() -> None:
    assert Security.of({}) == Security()
    assert Security.of({"tls": "true", "colour": "blue"}) == Security(tls=True)
    paths = {name: f"/{name}" for name in SECURITY_OPTIONS if name != "tls"}
    ca, certificate, key, token = (Path(path) for path in paths.values())
    assert Security.of(paths) == Security(False, ca, certificate, key, token)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="tls is 'yes'"):
        Security.of({"tls": "yes"})
    with pytest.raises(ValueError, match="give both"):
        Security.of({"cert_file": "/cert"})
    with pytest.raises(ValueError, match="exclude each other"):
        Security(token="secret", token_file=Path("/token"))


def test_naming_a_file_of_tls_switches_it_on(tmp_path: Path) -> None:
    assert Security(ca_file=tmp_path / "ca").uses_tls
    assert Security(cert_file=tmp_path / "cert", key_file=tmp_path / "key").uses_tls
    assert not Security(token_file=tmp_path / "token").uses_tls
    with pytest.raises(Unusable, match="cannot read the CA certificates file"):
        Security(ca_file=tmp_path / "ca").channel_credentials(Unusable)


def test_a_token_is_read_again_by_and_by(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", ManualClock()
    path.write_text("first\n")
    source = TokenSource(Security(token_file=path), clock, Unusable)
    assert source.headers() == (("authorization", "Bearer first"),)
    path.write_text("second")
    assert source.headers() == (("authorization", "Bearer first"),)
    clock.advance_ms(int(TOKEN_RECHECK_S * 1000))
    assert source.headers() == (("authorization", "Bearer second"),)
    path.unlink()
    clock.advance_ms(int(TOKEN_RECHECK_S * 1000))
    with pytest.raises(Unusable, match="cannot read the token file"):
        source.headers()
    assert TokenSource(Security(), clock, Unusable).headers() == ()


def test_a_token_needs_no_file_and_is_not_shown() -> None:
    security = Security(token="secret")
    assert TokenSource(security, ManualClock(), Unusable).headers() == (("authorization", "Bearer secret"),)
    assert "secret" not in repr(security)


@pytest.mark.parametrize("token", ["", "two words", "línea", "a\nb"])
def test_what_no_header_carries_is_no_token(token: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(token)
    for security in (Security(token_file=path), Security(token=token)):
        with pytest.raises(Unusable, match="no bearer token") as refusal:
            TokenSource(security, ManualClock(), Unusable)
        assert not token or token not in str(refusal.value)
