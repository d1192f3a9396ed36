"""`tocsin user`: a users file from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tocsin.cli.main import app
from tocsin.model.errors import AuthenticationFailed, ConfigError
from tocsin.model.limits import PASSWORD_BYTES_MAX
from tocsin.runtime.users_file import UsersFile
from tocsin.wire.scram import Credentials, make_credentials

RUNNER = CliRunner()


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return tmp_path / "users"


def add(users: Path, name: str, password: str, *more: str) -> None:
    arguments = ["user", "add", name, "--users", str(users), "--password-stdin", *more]
    result = RUNNER.invoke(app, arguments, input=password + "\n", catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout == "" or "--json" in more


def test_a_user_who_was_added_can_log_in_with_that_password(users: Path) -> None:
    add(users, "ada", "engine No. 1")
    stored = UsersFile(users, Credentials).load().find("ada")
    assert stored is not None
    again = make_credentials("ada", "engine No. 1", salt=stored.salt, iterations=stored.iterations)
    assert again == stored
    assert "engine" not in users.read_text()


def test_list_and_remove(users: Path) -> None:
    add(users, "bob", "b")
    add(users, "ada", "a", "--json")
    shown = RUNNER.invoke(app, ["user", "list", "--users", str(users)])
    assert shown.stdout == "ada\nbob\n"
    RUNNER.invoke(app, ["user", "remove", "bob", "--users", str(users)], catch_exceptions=False)
    listed = RUNNER.invoke(app, ["user", "list", "--users", str(users), "--json"])
    assert json.loads(listed.stdout) == ["ada"]


def test_a_second_add_needs_replace(users: Path) -> None:
    add(users, "ada", "old")
    before = users.read_text()
    with pytest.raises(ConfigError, match="exists already"):
        add(users, "ada", "new")
    assert users.read_text() == before
    add(users, "ada", "new", "--replace")
    assert users.read_text() != before


@pytest.mark.parametrize(
    ("options", "complaint"),
    [(["--password-stdin"], "held no password"), ([], "no terminal to ask")],
)
def test_without_a_password_nothing_is_added(users: Path, options: list[str], complaint: str) -> None:
    arguments = ["user", "add", "ada", "--users", str(users), *options]
    result = RUNNER.invoke(app, arguments, input="")
    assert isinstance(result.exception, ConfigError)
    assert complaint in str(result.exception)
    assert not users.exists()


def test_the_file_can_be_named_by_the_environment(users: Path) -> None:
    add(users, "ada", "a")
    result = RUNNER.invoke(app, ["user", "list"], env={"TOCSIN_USERS": str(users)})
    assert result.stdout == "ada\n"


@pytest.mark.parametrize("length", [PASSWORD_BYTES_MAX + 1, 10 * PASSWORD_BYTES_MAX])
def test_a_password_that_is_too_long_is_refused_and_not_cut(users: Path, length: int) -> None:
    with pytest.raises(AuthenticationFailed, match=f"at most {PASSWORD_BYTES_MAX} bytes"):
        add(users, "ada", "p" * length)
    assert not users.exists()


def test_the_longest_password_is_taken_whole(users: Path) -> None:
    longest = "p" * PASSWORD_BYTES_MAX
    add(users, "ada", longest)
    stored = UsersFile(users, Credentials).load().find("ada")
    assert stored is not None
    assert make_credentials("ada", longest, salt=stored.salt, iterations=stored.iterations) == stored


def test_the_name_is_told_as_it_is_kept(users: Path) -> None:
    """Compatibility characters and such that cannot be seen are compared as what they look like."""
    arguments = ["user", "add", "\uff41da\u00ad", "--users", str(users), "--password-stdin"]
    told = RUNNER.invoke(app, arguments, input="a\n", catch_exceptions=False)
    assert "The name is kept as ada" in told.stderr and "ada can log in" in told.stderr
    told = RUNNER.invoke(app, [*arguments, "--replace", "--json"], input="a\n", catch_exceptions=False)
    assert json.loads(told.stdout)["user"] == "ada"
    plain = RUNNER.invoke(app, ["user", "add", "bob", *arguments[3:]], input="b\n", catch_exceptions=False)
    assert "kept as" not in plain.stderr
