"""Files that say who may come in, read again while a server runs."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtime.test_tls import Authority, handshake

from tocsin.model.errors import ConfigError
from tocsin.node.access_files import AccessFiles
from tocsin.node.config import ServerConfig
from tocsin.runtime.tls import Certificate, client_context
from tocsin.runtime.users_file import UsersFile
from tocsin.wire.scram import Credentials, make_credentials


class Stage:
    """A server that lets in clients of one authority, with a certificate of another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.trusted, self.users = folder / "trusted.pem", folder / "users"
        self._servers = Authority(folder, "servers")
        self.old, self.new = Authority(folder, "old"), Authority(folder, "new")
        self.trust(self.old)
        self.add("ada")
        self.own = self.renew()
        self.access = AccessFiles(
            ServerConfig(
                data_dir=folder,
                users_file=self.users,
                tls_cert=self.own.certificate,
                tls_key=self.own.key,
                tls_client_ca=self.trusted,
            )
        )
        contexts = self.access.open_tls()
        assert contexts is not None
        self.contexts: Callable[[], ssl.SSLContext] = contexts

    def trust(self, authority: Authority) -> None:
        self.trusted.write_bytes(authority.path.read_bytes())

    def add(self, name: str) -> None:
        UsersFile(self.users, Credentials).add(make_credentials(name, "engine", salt=bytes(16)))

    def renew(self) -> Certificate:
        return self._servers.issue("mill.example")

    def enter(self, authority: Authority) -> str:
        """A client with a certificate of this authority; returns the serial number of the server's."""
        own = authority.issue("client", file=f"client of {authority.path.stem}")
        return serial_seen_by(handshake(self.contexts(), client_context(ca=self._servers.path, own=own)))


def serial_seen_by(client: ssl.SSLObject) -> str:
    certificate = client.getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_an_authority_that_was_withdrawn_lets_nobody_in_any_more(stage: Stage) -> None:
    stage.enter(stage.old)
    with pytest.raises(ssl.SSLError):
        stage.enter(stage.new)
    stage.trust(stage.new)
    stage.access.reload()
    stage.enter(stage.new)
    with pytest.raises(ssl.SSLError):
        stage.enter(stage.old)


def test_a_renewed_certificate_is_shown_and_logins_may_be_bound_to_either(stage: Stage) -> None:
    before, binding = stage.enter(stage.old), stage.access.bindings()[0]
    assert stage.renew() == stage.own
    assert stage.enter(stage.old) == before
    stage.access.reload()
    assert stage.enter(stage.old) != before
    assert len(stage.access.bindings()) == 2 and stage.access.bindings()[1] == binding


@pytest.mark.parametrize("wrong", ["tls_cert", "tls_client_ca", "users_file"])
def test_a_bad_file_leaves_all_as_it_was(stage: Stage, wrong: str) -> None:
    before, bindings = stage.enter(stage.old), list(stage.access.bindings())
    stage.renew()
    stage.trust(stage.new)
    stage.add("bob")
    {"tls_cert": stage.own.certificate, "tls_client_ca": stage.trusted, "users_file": stage.users}[wrong].write_text(
        "?"
    )
    with pytest.raises(ConfigError):
        stage.access.reload()
    assert stage.enter(stage.old) == before and stage.access.bindings() == bindings
    find = stage.access.finder
    assert find is not None and find("ada") is not None and find("bob") is None


def test_without_tls_there_is_no_context(tmp_path: Path) -> None:
    access = AccessFiles(ServerConfig(data_dir=tmp_path))
    assert access.open_tls() is None
    access.reload()
    assert access.url(7177) == "tocsin://127.0.0.1:7177"


def test_a_key_that_anybody_may_read_is_told_of(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    for mode, told in ((0o600, 0), (0o640, 0), (0o644, 1), (0o620, 1)):
        stage.own.key.chmod(mode)
        caplog.clear()
        stage.access.reload()
        assert caplog.text.count(f"run: chmod 600 {stage.own.key}") == told, oct(mode)


def test_a_file_without_users_is_told_of(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    UsersFile(stage.users, Credentials).remove("ada")
    stage.access.reload()
    assert f"The users file {stage.users} has no users, so nobody can log in" in caplog.text
