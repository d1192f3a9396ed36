"""Arguments of connect()."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from tocsin.client.opening import (
    channel_binding,
    connect_failure,
    line_failure,
    make_settings,
    tls_context,
    warn_of_login_in_clear,
)
from tocsin.client.settings import Settings
from tocsin.client.url import Place, parse_url
from tocsin.model.errors import ConfigError, InvalidClientId
from tocsin.model.secret import Secret


def settings(url: str = "tocsin://one", **given: Any) -> Settings:
    known = {"user": None, "password": None, "client_id": None, "autostart": True, "serializers": None}
    return make_settings(url, **(known | given))


def test_arguments_win_over_the_url() -> None:
    made = settings("tocsin://ada:pw@one/?client_id=a&heartbeat=2", client_id="b", heartbeat=3, password="other")
    assert (made.user, made.password, made.client_id, made.heartbeat) == ("ada", Secret("other"), "b", 3.0)


def test_defaults() -> None:
    made = settings()
    assert (made.heartbeat, made.connect_timeout, made.reconnect_timeout) == (10.0, 10.0, 60.0)


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


def test_a_local_socket_has_no_tls() -> None:
    for url, given in (("tocsins://unix:/a", None), ("tocsin://one,unix:/a", True), ("tocsins://unix:/a,one", None)):
        with pytest.raises(ConfigError, match="A local socket has no TLS"):
            tls_context(parse_url(url), given)
    with pytest.raises(ConfigError, match="A local socket has no TLS"):
        tls_context(parse_url("tocsin://unix:/a"), ssl.create_default_context())


@pytest.mark.parametrize(
    ("url", "over_tls", "warned"),
    [
        ("tocsin://ada:lovelace@server.example", False, "server.example:7177"),
        ("tocsin://ada:lovelace@localhost:1,192.0.2.1:2,unix:/a", False, "192.0.2.1:2"),
        ("tocsin://ada:lovelace@localhost,127.0.0.1,[::1],unix:/a", False, None),
        ("tocsin://ada:lovelace@server.example", True, None),
        ("tocsin://server.example", False, None),
    ],
)
def test_a_login_in_clear_to_another_host_warns(
    caplog: pytest.LogCaptureFixture, url: str, over_tls: bool, warned: str | None
) -> None:
    warn_of_login_in_clear(settings(url), ssl.create_default_context() if over_tls else None)
    if warned is None:
        assert not caplog.records
    else:
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert f"'ada' logs in to {warned} without TLS" in record.getMessage()
        assert "lovelace" not in record.getMessage()


def test_a_server_that_shows_no_certificate() -> None:
    class Silent(ssl.SSLObject):
        def __init__(self) -> None:
            """Not from a context: nothing but its certificate is asked for."""

        def getpeercert(self, binary_form: bool = False) -> None:
            return None

    assert channel_binding(None) is None
    with pytest.raises(ssl.SSLError, match="no certificate") as caught:
        channel_binding(Silent())
    assert "TLS with one:7177 failed: the server has shown no certificate" in str(
        connect_failure(Place("one", 7177), caught.value)
    )


def test_a_server_without_tls_is_told_from_a_bad_certificate() -> None:
    plain = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    plain.reason = "WRONG_VERSION_NUMBER"
    assert "write tocsin://" in str(connect_failure(Place("one", 7177), plain))
    stranger = ssl.SSLCertVerificationError(1, "certificate verify failed")
    stranger.reason = "CERTIFICATE_VERIFY_FAILED"
    stranger.verify_message = "self-signed certificate"
    assert "self-signed certificate" in str(connect_failure(Place("one", 7177), stranger))
    assert "Is it running?" in str(
        connect_failure(Place("one", 7177), ConnectionRefusedError(111, "Connection refused"))
    )


@pytest.mark.parametrize("error", [None, ConnectionResetError(104, "Connection reset by peer")])
def test_a_line_that_ends_before_the_login_may_lack_tls(error: OSError | None) -> None:
    assert "tocsins://" in str(line_failure(error, logging_in=True, may_lack_tls=True))
    assert "tocsins://" not in str(line_failure(error, logging_in=True, may_lack_tls=False))
    assert "tocsins://" not in str(line_failure(error, logging_in=False, may_lack_tls=True))
    assert ("reset" in str(line_failure(error, logging_in=False, may_lack_tls=True))) is (error is not None)
