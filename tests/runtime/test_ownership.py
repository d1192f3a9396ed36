"""What another user could have put into a data directory, or could change there, is refused with a sentence."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.model.errors import ConfigError
from tocsin.runtime import ownership
from tocsin.runtime.disk import Disk, lock_directory
from tocsin.runtime.ownership import check_link, check_private, check_status, check_tree

STRANGER = 54_321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def a_status(mode: int, user: int) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, user, 1, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "owner", "said"),
    [
        (stat.S_IFREG | 0o600, STRANGER, "belongs to the user 54321, and this process runs as the user 1000"),
        (stat.S_IFDIR | 0o700, STRANGER, "chown -R 1000 'my data'$"),
        (stat.S_IFREG | 0o660, 1000, "Other users may write to my data/x"),
        (stat.S_IFDIR | 0o702, 1000, "chmod -R go-w 'my data'$"),
        (stat.S_IFLNK | 0o777, 1000, "my data/x is a symbolic link, and none is followed in a data directory"),
        (stat.S_IFIFO | 0o600, 1000, "no file that a server makes"),
    ],
)
def test_what_is_refused(mode: int, owner: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_status("my data/x", a_status(mode, owner), 1000, "my data")


@pytest.mark.parametrize("mode", [stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755, stat.S_IFSOCK | 0o600])
@pytest.mark.parametrize("owner", [0, 1000])
def test_what_is_good(mode: int, owner: int) -> None:
    check_status("my data/x", a_status(mode, owner), 1000, "my data")


def filled(folder: Path) -> Path:
    data = folder / "data"
    disk = Disk(data)
    disk.make_folder("journal")
    disk.create("journal/1.seg", 10).close()
    disk.create("secret", 0).close()
    lock_directory(data).release()
    check_tree(data)
    return data


def open_directory(data: Path) -> None:
    data.chmod(0o770)


def open_folder(data: Path) -> None:
    (data / "journal").chmod(0o777)


def open_file(data: Path) -> None:
    (data / "journal" / "1.seg").chmod(0o620)


def linked_file(data: Path) -> None:
    (data / "journal" / "1.seg").rename(data.parent / "elsewhere")
    (data / "journal" / "1.seg").symlink_to(data.parent / "elsewhere")


def linked_folder(data: Path) -> None:
    (data / "journal").rename(data.parent / "elsewhere")
    (data / "journal").symlink_to(data.parent / "elsewhere")


@pytest.mark.parametrize("spoil", [open_directory, open_folder, open_file, linked_file, linked_folder])
def test_a_directory_that_another_has_a_hand_in_is_refused(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    data = filled(tmp_path)
    spoil(data)
    with pytest.raises(ConfigError):
        lock_directory(data)


def test_a_planted_lock_changes_no_other_file(tmp_path: Path) -> None:
    other = tmp_path / "precious"
    other.write_text("many bytes that somebody needs")
    data = tmp_path / "data"
    data.mkdir()
    (data / "lock").symlink_to(other)
    with pytest.raises(ConfigError, match="data/lock is a symbolic link"):
        lock_directory(data)
    assert other.read_text() == "many bytes that somebody needs"


@as_root
@pytest.mark.parametrize("planted", ["", "secret", "journal", "journal/1.seg"])
def test_what_a_stranger_owns_is_refused(planted: str, tmp_path: Path) -> None:
    data = filled(tmp_path)
    os.chown(data / planted, STRANGER, -1)
    with pytest.raises(ConfigError, match=f"belongs to the user {STRANGER}"):
        lock_directory(data)


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = filled(tmp_path)
    monkeypatch.setattr(ownership, "_ROOT", -1)
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    with pytest.raises(ConfigError, match=f"this process runs as the user {STRANGER}"):
        lock_directory(data)


def test_links_are_not_followed_by_whoever_opens_a_file(tmp_path: Path) -> None:
    data = filled(tmp_path)
    linked_file(data)
    with pytest.raises(Exception, match="symbolic links"):
        Disk(data).open("journal/1.seg")


def test_the_directory_itself_may_be_a_link_of_ones_own(tmp_path: Path) -> None:
    data = filled(tmp_path)
    (tmp_path / "link").symlink_to(data)
    lock_directory(tmp_path / "link").release()
    Disk(tmp_path / "link").sync_directory("")


@as_root
def test_a_link_of_a_stranger_is_not_followed(tmp_path: Path) -> None:
    data = filled(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(data)
    os.chown(link, STRANGER, -1, follow_symlinks=False)
    with pytest.raises(ConfigError, match="is a symbolic link of the user 54321"):
        lock_directory(link)
    check_link("data directory", tmp_path / "nothing")


def test_a_secret_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("hush")
    for mode, good in ((0o600, True), (0o640, False), (0o604, False)):
        file.chmod(mode)
        if good:
            check_private("secret", file, file.stat())
        else:
            with pytest.raises(ConfigError, match=f"open to others; run: chmod 600 {file}"):
                check_private("secret", file, file.stat())
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="belongs to the user 54321"):
        check_private("secret", file, a_status(stat.S_IFREG | 0o600, STRANGER))
