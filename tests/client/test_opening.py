"""Arguments of connect()."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from tocsin.client.opening import connect_failure, line_failure, make_settings, tls_context
from tocsin.client.settings import Settings
from tocsin.client.url import parse_url
from tocsin.model.errors import ConfigError, InvalidClientId


def settings(url: str = "tocsin://one", **given: Any) -> Settings:
    known = {"user": None, "password": None, "client_id": None, "autostart": True, "serializers": None}
    return make_settings(url, **(known | given))


def test_arguments_win_over_the_url() -> None:
    made = settings("tocsin://ada:pw@one/?client_id=a&heartbeat=2", client_id="b", heartbeat=3, password="other")
    assert (made.user, made.password, made.client_id, made.heartbeat) == ("ada", "other", "b", 3.0)


def test_defaults() -> None:
    made = settings()
    assert (made.heartbeat, made.connect_timeout, made.reconnect_timeout) == (10.0, 10.0, 60.0)


def test_the_transport_is_automatic_or_tcp() -> None:
    assert settings().transport == "auto"
    assert settings("tocsin://one/?transport=tcp").transport == "tcp"
    assert settings("tocsin://one/?transport=tcp", transport="auto").transport == "auto"
    with pytest.raises(ConfigError, match="transport is auto or tcp, not 'pigeon'"):
        settings("tocsin://one/?transport=pigeon")


def test_a_user_needs_a_password() -> None:
    with pytest.raises(ConfigError, match="password"):
        settings(user="ada")


@pytest.mark.parametrize("name", ["heartbeat", "connect_timeout", "reconnect_timeout"])
def test_times_are_greater_than_zero(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        settings("tocsin://one", **{name: 0})


@pytest.mark.parametrize("client_id", ["", "x" * 256])
def test_client_ids_are_bounded(client_id: str) -> None:
    with pytest.raises(InvalidClientId):
        settings(client_id=client_id)


def test_tls_by_url_by_flag_or_by_context() -> None:
    plain, secure = parse_url("tocsin://one"), parse_url("tocsins://one")
    own = ssl.create_default_context()
    assert tls_context(plain, None) is None
    assert tls_context(plain, own) is own
    made = tls_context(secure, None)
    assert made is not None
    assert made.check_hostname
    assert tls_context(plain, True) is not None
    with pytest.raises(ConfigError, match="TLS"):
        tls_context(secure, False)


def test_a_server_without_tls_is_told_from_a_bad_certificate() -> None:
    plain = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    plain.reason = "WRONG_VERSION_NUMBER"
    assert "write tocsin://" in str(connect_failure("one", 7177, plain))
    stranger = ssl.SSLCertVerificationError(1, "certificate verify failed")
    stranger.reason = "CERTIFICATE_VERIFY_FAILED"
    stranger.verify_message = "self-signed certificate"
    assert "self-signed certificate" in str(connect_failure("one", 7177, stranger))
    assert "Is it running?" in str(connect_failure("one", 7177, ConnectionRefusedError(111, "Connection refused")))


@pytest.mark.parametrize("error", [None, ConnectionResetError(104, "Connection reset by peer")])
def test_a_line_that_ends_before_the_login_may_lack_tls(error: OSError | None) -> None:
    assert "tocsins://" in str(line_failure(error, logging_in=True, tls=False))
    assert "tocsins://" not in str(line_failure(error, logging_in=True, tls=True))
    assert "tocsins://" not in str(line_failure(error, logging_in=False, tls=False))
    assert ("reset" in str(line_failure(error, logging_in=False, tls=False))) is (error is not None)
