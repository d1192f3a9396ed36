"""The short way between a client and a server on one host: a socket in a directory."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.client.url import parse_url
from tocsin.runtime import local
from tocsin.runtime.local import SOCKET_NAME, LocalListener

NOBODY = 65_534


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[LocalListener]:
    found = LocalListener(tmp_path)
    with found.socket:
        found.socket.listen()
        yield found
    found.remove()


def give_away(path: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Makes the socket another user's than ours, and neither of us root; says whose."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    owner = os.lstat(path).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    return owner


def test_both_ends_find_each_other_by_the_path(listener: LocalListener, tmp_path: Path) -> None:
    assert listener.path == str(tmp_path / SOCKET_NAME)
    with local.dial(listener.path) as line, listener.socket.accept()[0] as other:
        line.send(b"to the server")
        assert other.recv(100) == b"to the server"
        assert local.is_local(line) and local.on_this_host(line)
        assert local.peer_user(line) == local.peer_user(other) == os.geteuid()
        assert local.may_enter(other)


def test_only_its_owner_may_use_it_from_the_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    bind = socket.socket.bind

    class Watched(socket.socket):
        def bind(self, address: object) -> None:
            bind(self, address)  # type: ignore[arg-type]
            modes.append(stat.S_IMODE(os.lstat(tmp_path / SOCKET_NAME).st_mode))

    monkeypatch.setattr(socket, "socket", Watched)
    before = os.umask(0)
    try:
        found = LocalListener(tmp_path)
    finally:
        os.umask(before)
    found.socket.close()
    found.remove()
    assert modes == [0o600]


def test_a_path_may_be_longer_than_a_sockets_address(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a folder with quite a long name"] * 6)
    deep.mkdir(parents=True)
    found = LocalListener(deep)
    assert len(found.path) > 108
    with found.socket:
        found.socket.listen()
        local.dial(found.path).close()
    found.remove()


def test_what_a_killed_server_left_is_replaced(listener: LocalListener, tmp_path: Path) -> None:
    again = LocalListener(tmp_path)
    with again.socket:
        again.socket.listen()
        with local.dial(again.path), again.socket.accept()[0]:
            pass
        listener.remove()
        assert os.path.exists(again.path), "the file is the other one's by now"
    again.remove()
    assert not os.path.exists(again.path)
    listener._folder = os.open(tmp_path, os.O_PATH)  # For the end of the fixture.


def test_what_is_gone_already_is_removed_without_a_word(tmp_path: Path) -> None:
    found = LocalListener(tmp_path)
    found.socket.close()
    os.unlink(found.path)
    found.remove()


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_is_no_socket_is_left_alone(tmp_path: Path, kind: str) -> None:
    """A link that somebody has planted would lead elsewhere."""
    elsewhere, name = tmp_path / "elsewhere", tmp_path / SOCKET_NAME
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(elsewhere))
        if kind == "file":
            name.write_text("mine")
        elif kind == "folder":
            name.mkdir()
        else:
            name.symlink_to(elsewhere)
        with pytest.raises(FileExistsError, match="no socket, and in the way"):
            LocalListener(tmp_path)
        with pytest.raises(OSError, match="no socket, and links to one are not followed"):
            local.dial(str(name))
        assert elsewhere.exists() and os.path.lexists(name)


def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        local.dial(str(tmp_path / SOCKET_NAME))
    found = LocalListener(tmp_path)
    with found.socket, pytest.raises(ConnectionRefusedError):
        local.dial(found.path)
    found.remove()


def test_a_socket_of_another_user_is_not_spoken_to(listener: LocalListener, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = give_away(listener.path, monkeypatch)
    with pytest.raises(PermissionError, match=f"belongs to another user, with the id {owner}"):
        local.dial(listener.path)


def test_root_may_speak_with_the_socket_of_any_user(listener: LocalListener, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = give_away(listener.path, monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(local, "peer_user", lambda line: owner)
    local.dial(listener.path).close()


def test_whoever_listens_must_be_the_owner_of_the_file(
    listener: LocalListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = os.geteuid() + 1
    monkeypatch.setattr(local, "peer_user", lambda line: stranger)
    with pytest.raises(PermissionError, match=f"user {stranger} listens there"):
        local.dial(listener.path)


@pytest.mark.parametrize(
    ("user", "own", "enters"), [(1000, 1000, True), (0, 1000, True), (1001, 1000, False), (1, 0, False)]
)
def test_a_server_lets_its_own_user_and_root_in(
    monkeypatch: pytest.MonkeyPatch, user: int, own: int, enters: bool
) -> None:
    monkeypatch.setattr(local, "peer_user", lambda line: user)
    monkeypatch.setattr(os, "geteuid", lambda: own)
    with socket.socket(socket.AF_UNIX) as line:
        assert local.may_enter(line) is enters


def test_a_server_that_lets_nobody_in_now_is_not_waited_for(tmp_path: Path) -> None:
    found = LocalListener(tmp_path)
    with found.socket:
        found.socket.listen(0)
        with local.dial(found.path), pytest.raises(BlockingIOError):
            local.dial(found.path)
    found.remove()


def test_another_system_has_none(monkeypatch: pytest.MonkeyPatch, listener: LocalListener, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(OSError, match="need Linux"):
        local.dial(listener.path)
    with pytest.raises(OSError, match="need Linux"):
        LocalListener(tmp_path)


def test_the_url_of_a_socket_leads_to_it(tmp_path: Path) -> None:
    path = tmp_path / "a, b@c?d%e" / SOCKET_NAME
    (place,) = parse_url(local.local_url(path) + "/?client_id=me").hosts
    assert place.path == str(path)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.9.8.7", True), ("::1", True), ("192.0.2.1", False), ("localhost.example", False)],
)
def test_which_hosts_are_surely_this_one(host: str, loopback: bool) -> None:
    assert local.is_loopback(host) is loopback
