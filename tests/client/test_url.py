"""URLs of servers."""

from __future__ import annotations

import pytest

from tocsin.client.url import parse_url
from tocsin.model.errors import ConfigError
from tocsin.model.secret import Secret


def test_a_full_url() -> None:
    url = parse_url("tocsins://ad%40a:p%3Aw@one:1,two,[::1]:3/?client_id=me&heartbeat=2.5&reconnect_timeout=9")
    assert url.hosts == (("one", 1), ("two", 7177), ("::1", 3))
    assert (url.tls, url.user, url.password, url.client_id) == (True, "ad@a", Secret("p:w"), "me")
    assert url.numbers == {"heartbeat": 2.5, "reconnect_timeout": 9.0}
    assert str(url) == "tocsins://ad@a@one:1,two:7177,[::1]:3"


def test_a_short_url() -> None:
    url = parse_url("tocsin://localhost")
    assert url.hosts == (("localhost", 7177),)
    assert (url.tls, url.user, url.password, url.client_id) == (False, None, None, None)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("tocsin://unix:/var/lib/tocsin/client.socket", "/var/lib/tocsin/client.socket"),
        ("tocsin://unix:/var/lib/tocsin/client.socket/?client_id=me", "/var/lib/tocsin/client.socket"),
        ("tocsin://unix:/var/lib/tocsin/client.socket?client_id=me", "/var/lib/tocsin/client.socket"),
        ("tocsin://ada:lovelace@unix:data/client.socket", "data/client.socket"),
        ("tocsin://unix:/a%2Cb%40c%3Fd%25e f/client.socket", "/a,b@c?d%e f/client.socket"),
    ],
)
def test_a_local_socket_is_named_by_its_path(text: str, path: str) -> None:
    url = parse_url(text)
    (place,) = url.hosts
    assert place.path == path
    assert parse_url(str(url)).hosts == url.hosts
    assert url.client_id == ("me" if "client_id" in text else None)


@pytest.mark.parametrize("host", ["a" * 63 + ".example", "server.example.", "m\u00fcnchen.example", "under_score"])
def test_hosts_that_can_be_looked_up(host: str) -> None:
    assert parse_url(f"tocsin://{host}").hosts == ((host, 7177),)
    assert parse_url("tocsin://[fe80::1%eth0]").hosts == (("fe80::1%eth0", 7177),)


def test_a_local_socket_may_be_one_of_a_list() -> None:
    url = parse_url("tocsin://one:1,unix:/a/b.socket,two/?heartbeat=2")
    assert [place.path for place in url.hosts] == [None, "/a/b.socket", None]
    assert str(url) == "tocsin://one:1,unix:/a/b.socket,two:7177"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("localhost:7177", "tocsin://"),
        ("http://localhost", "tocsin://"),
        ("tocsin://", "no host"),
        ("tocsin://one,,two", "no host"),
        ("tocsin://a..b", "between two dots"),
        ("tocsin://.one:7177", "between two dots"),
        ("tocsin://one," + "a" * 64 + ".example:1", "1 to 63 characters"),
        ("tocsin://one\udcff", "not written as one"),
        ("tocsin://one:port", "port"),
        ("tocsin://one:0", "port"),
        ("tocsin://one:65536", "port"),
        ("tocsin://::1", "IPv6"),
        ("tocsin://[::1", "bracket"),
        ("tocsin://[::1]x", "bracket"),
        ("tocsin://one/path", "path"),
        ("tocsin://one/,two", "path"),
        ("tocsin://unix:", "path of a socket"),
        ("tocsin://unix:/?client_id=me", "path of a socket"),
        ("tocsin://unix:%00abstract", "path of a socket"),
        ("tocsin://one/?transport=tcp", "transport"),
        ("tocsin://one/?heartbeat=soon", "heartbeat=soon"),
        ("tocsin://one/?colour=red", "colour"),
    ],
)
def test_a_bad_url_gets_a_sentence(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_url(text)


def test_a_password_is_never_shown() -> None:
    for text in ("tocsin://ada:lovelace@one:port", "tocsin://lovelace..:1"):
        with pytest.raises(ConfigError) as caught:
            parse_url(text)
        assert "lovelace" not in str(caught.value)
