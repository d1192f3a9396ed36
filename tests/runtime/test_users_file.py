from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tocsin.model.errors import ConfigError, NewerFormat
from tocsin.model.limits import (
    PASSWORD_ITERATIONS_MAX,
    PASSWORD_ITERATIONS_MIN,
    PASSWORD_ITERATIONS_READ_MIN,
    USER_NAME_BYTES_MAX,
)
from tocsin.runtime.users_file import UsersFile, new_salt
from tocsin.wire.scram import Credentials, make_credentials

NOBODY = 65534


def user(name: str, *, password: str = "secret", iterations: int = PASSWORD_ITERATIONS_MIN) -> Credentials:
    salted = make_credentials("x", password, salt=b"12345678", iterations=PASSWORD_ITERATIONS_MIN)
    return Credentials(name, salted.salt, iterations, salted.stored_key, salted.server_key)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "users"


@pytest.fixture
def users(path: Path) -> UsersFile[Credentials]:
    return UsersFile(path, Credentials)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_was_added_is_loaded(users: UsersFile[Credentials]) -> None:
    anna, zoe = user("anna"), user("Zoë of the sea", iterations=PASSWORD_ITERATIONS_MAX)
    users.add(zoe)
    users.add(anna)
    loaded = users.load()
    assert loaded.find("anna") == anna
    assert loaded.find("Zoë of the sea") == zoe
    assert loaded.find("nobody") is None
    assert users.names() == ["Zoë of the sea", "anna"]


def test_secret_stays_when_users_change(users: UsersFile[Credentials]) -> None:
    users.add(user("anna"))
    secret = users.load().secret
    users.add(user("bert"))
    users.remove("anna")
    assert users.load().secret == secret
    assert users.names() == ["bert"]


def test_two_files_have_two_secrets(tmp_path: Path) -> None:
    files = [UsersFile(tmp_path / name, Credentials) for name in ("one", "two")]
    for file in files:
        file.add(user("anna"))
    assert files[0].load().secret != files[1].load().secret
    assert new_salt() != new_salt()


def test_adding_twice_needs_replace(users: UsersFile[Credentials]) -> None:
    users.add(user("anna"))
    with pytest.raises(ConfigError, match="'anna' exists already"):
        users.add(user("anna", password="new"))
    assert users.load().find("anna") == user("anna")
    users.add(user("anna", password="new"), replace=True)
    assert users.load().find("anna") == user("anna", password="new")


def test_removing_an_unknown_user_is_an_error(users: UsersFile[Credentials]) -> None:
    users.add(user("anna"))
    with pytest.raises(ConfigError, match="no user 'bert'"):
        users.remove("bert")


def test_file_belongs_to_its_owner_alone(path: Path, users: UsersFile[Credentials]) -> None:
    before = os.umask(0)
    try:
        users.add(user("anna"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        users.load()


@pytest.mark.parametrize("links", [["link"], ["link", "link of the link"]])
def test_a_file_behind_a_link_is_changed_where_it_is(tmp_path: Path, links: list[str]) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    real = target = folder / "users"
    for name in links:
        (tmp_path / name).symlink_to(target)
        target = tmp_path / name
    by_link, by_name = UsersFile(target, Credentials), UsersFile(real, Credentials)
    by_link.add(user("anna"))
    by_link.add(user("bert"))
    assert by_name.names() == ["anna", "bert"]
    by_link.remove("anna")
    assert by_name.names() == ["bert"] and target.is_symlink()
    # Both have one lock, beside the file.
    assert sorted(os.listdir(folder)) == ["users", "users.lock"]
    assert sorted(os.listdir(tmp_path)) == sorted(["elsewhere", *links])


def test_a_link_that_leads_to_itself_is_a_sentence(path: Path, users: UsersFile[Credentials]) -> None:
    path.symlink_to(path)
    with pytest.raises(ConfigError, match="cannot be read: Too many levels of symbolic links"):
        users.add(user("anna"))
    assert path.is_symlink()


def test_a_link_of_another_user_is_not_followed(
    path: Path, users: UsersFile[Credentials], monkeypatch: pytest.MonkeyPatch
) -> None:
    path.symlink_to(path.with_name("elsewhere"))
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    stranger = path.lstat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with pytest.raises(ConfigError, match="is a symbolic link of the user"):
        users.add(user("anna"))
    assert os.listdir(path.parent) == ["users"]


def test_password_is_not_in_the_file(path: Path, users: UsersFile[Credentials]) -> None:
    users.add(make_credentials("anna", "correct horse", salt=new_salt(), iterations=PASSWORD_ITERATIONS_MIN))
    assert b"correct horse" not in path.read_bytes()


def test_crash_before_the_rename_leaves_the_old_file(
    path: Path, users: UsersFile[Credentials], monkeypatch: pytest.MonkeyPatch
) -> None:
    users.add(user("anna"))
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        with pytest.raises(ConfigError, match="Input/output error"):
            users.add(user("bert"))
    assert path.read_bytes() == before
    # The leftover of that crash is in nobody's way.
    users.add(user("bert"))
    assert users.names() == ["anna", "bert"]


def test_content_is_on_disk_before_it_is_renamed(
    path: Path, users: UsersFile[Credentials], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(handle: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real_fsync(handle)

    def rename(old: Path, new: Path) -> None:
        calls.append("rename")
        real_rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    users.add(user("anna"))
    assert calls == ["file", "rename", "folder"]


@pytest.mark.parametrize(
    "name", ["", " anna", "anna ", "an\nna", "an\x00na", "\ud800", "x" * (USER_NAME_BYTES_MAX + 1)]
)
def test_bad_names_are_refused(path: Path, users: UsersFile[Credentials], name: str) -> None:
    with pytest.raises(ConfigError, match="user name"):
        users.add(user(name))
    assert not path.exists()


def test_a_user_of_old_with_few_iterations_can_be_read_and_replaced(path: Path, users: UsersFile[Credentials]) -> None:
    users.add(user("anna"))
    edit(path, f"anna {PASSWORD_ITERATIONS_MIN}", f"anna {PASSWORD_ITERATIONS_READ_MIN}")
    old = users.load().by_name["anna"]
    assert old.iterations == PASSWORD_ITERATIONS_READ_MIN
    with pytest.raises(ConfigError, match="Iterations"):
        users.add(old, replace=True)
    users.add(user("anna"), replace=True)
    assert users.load().by_name["anna"].iterations == PASSWORD_ITERATIONS_MIN


@pytest.mark.parametrize("iterations", [0, PASSWORD_ITERATIONS_READ_MIN - 1, PASSWORD_ITERATIONS_MAX + 1])
def test_iterations_are_bounded(path: Path, users: UsersFile[Credentials], iterations: int) -> None:
    with pytest.raises(ConfigError, match="Iterations"):
        users.add(user("anna", iterations=iterations))
    users.add(user("anna"))
    edit(path, f"anna {PASSWORD_ITERATIONS_MIN}", f"anna {iterations}")
    with pytest.raises(ConfigError, match=r"Line 2 .*Iterations"):
        users.load()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("bert 100000 ", "bert ", "Line 3 .*must hold a name"),
        ("bert 100000 ", "bert many ", "Line 3 .*not a number"),
        ("bert 100000 MTIzNDU2Nzg=", "bert 100000 ?", "Line 3 .*salt is not base64"),
        ("bert 100000 MTIzNDU2Nzg=", "bert 100000 MTIz", "Line 3 .*salt has 3 bytes"),
        ("bert", "anna", "Line 3 .*second time"),
        ("bert", "", "Line 3 .*user name"),
        ("bert", "\nbert", "Line 3 .*must hold a name"),
        ("tocsin-users 1", "users 1", "Line 1 .*begin with 'tocsin-users 1'"),
        ("tocsin-users 1", "tocsin-users 0", "Line 1"),
        ("tocsin-users 1 ", "tocsin-users 1 x", "Line 1 .*secret"),
    ],
)
def test_bad_line_is_named(path: Path, users: UsersFile[Credentials], old: str, new: str, complaint: str) -> None:
    users.add(user("anna"))
    users.add(user("bert"))
    edit(path, old, new)
    with pytest.raises(ConfigError, match=complaint):
        users.load()


def test_bad_file_is_never_replaced(path: Path, users: UsersFile[Credentials]) -> None:
    users.add(user("anna"))
    edit(path, "anna 100000", "anna ????")
    before = path.read_bytes()
    with pytest.raises(ConfigError):
        users.add(user("bert"))
    assert path.read_bytes() == before


def test_newer_format_is_refused(path: Path, users: UsersFile[Credentials]) -> None:
    users.add(user("anna"))
    edit(path, "tocsin-users 1", "tocsin-users 2")
    with pytest.raises(NewerFormat, match="format 2"):
        users.load()


def test_missing_empty_cut_and_binary_files_are_sentences(path: Path, users: UsersFile[Credentials]) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        users.load()
    path.touch(mode=0o600)
    for content, complaint in (
        (b"", "Line 1|cut off"),
        (b"tocsin-users 1 x", "cut off"),
        (b"\xff\n", "UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=complaint):
            users.load()


def test_folder_that_does_not_exist_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be changed: No such file"):
        UsersFile(tmp_path / "missing" / "users", Credentials).add(user("anna"))


@pytest.mark.timeout(10)
def test_a_pipe_in_the_place_of_the_file_is_a_sentence(path: Path, users: UsersFile[Credentials]) -> None:
    os.mkfifo(path, 0o600)
    for use in (users.load, lambda: users.add(user("anna"))):
        with pytest.raises(ConfigError, match="users is no regular file"):
            use()
