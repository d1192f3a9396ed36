"""The cluster's secret: for its owner alone, never replaced, never taken for another one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tocsin.model.errors import ConfigError
from tocsin.node.cluster_secret import check_secret, fingerprint, new_secret, read_secret, token_secret, write_secret


def test_it_is_written_for_the_owner_and_read_again(tmp_path: Path) -> None:
    secret, path = new_secret(), tmp_path / "secret"
    write_secret(path, secret)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_secret(path) == secret
    check_secret(secret, fingerprint(secret), path)


def test_an_existing_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_secret(path, new_secret())
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="exists"):
        write_secret(path, new_secret())
    assert path.read_bytes() == before


def test_one_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_secret(path, new_secret())
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_secret(path)


@pytest.mark.parametrize("text", ["", "hello", "ab" * 31, "ab" * 33])
def test_what_is_no_secret_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no cluster secret"):
        read_secret(path)


def test_the_secret_of_another_cluster_is_refused_without_showing_either() -> None:
    ours, theirs = new_secret(), new_secret()
    with pytest.raises(ConfigError, match="not the one of this cluster") as refused:
        check_secret(theirs, fingerprint(ours), Path("secret"))
    assert ours.hex() not in str(refused.value) and theirs.hex() not in str(refused.value)


def test_what_is_derived_differs() -> None:
    secret = new_secret()
    assert len({secret.hex(), fingerprint(secret), token_secret(secret).hex()}) == 3
    assert not secret.hex().startswith(fingerprint(secret))


@pytest.mark.timeout(10)
def test_a_pipe_in_its_place_is_a_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "secret", 0o600)
    with pytest.raises(ConfigError, match=r"cluster's secret .*secret is no regular file"):
        read_secret(tmp_path / "secret")
