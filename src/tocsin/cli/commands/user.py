"""`tocsin user`: the file of those who may log in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli import options
from tocsin.cli.output import note, print_json, print_table
from tocsin.model.errors import ConfigError
from tocsin.model.limits import PASSWORD_BYTES_MAX

if TYPE_CHECKING:
    from tocsin.runtime.users_file import UsersFile
    from tocsin.wire.scram import Credentials

app = typer.Typer(help="Who may log in: add, remove and list users in a users file.", no_args_is_help=True)

Users = Annotated[
    Path, typer.Option("--users", envvar="TOCSIN_USERS", help="The users file that `tocsin serve` reads.")
]
Name = Annotated[str, typer.Argument(help="Name of the user.", show_default=False)]
USERS_DEFAULT = Path("tocsin-users")


def _open(users: Path) -> UsersFile[Credentials]:
    from tocsin.runtime.users_file import UsersFile
    from tocsin.wire.scram import Credentials

    return UsersFile(users, Credentials)


@app.command()
def add(
    name: Name,
    users: Users = USERS_DEFAULT,
    password_stdin: Annotated[
        bool, options.flag("--password-stdin", help="The first line of the input is the password.")
    ] = False,
    replace: Annotated[bool, options.flag("--replace", help="Change the password of a user.")] = False,
    json: options.Json = False,
) -> None:
    """Add a user; the file is made when there is none, and holds no password."""
    from tocsin.runtime.users_file import new_salt
    from tocsin.wire.scram import make_credentials

    password = _password_line() if password_stdin else _ask_password()
    user = make_credentials(name, password, salt=new_salt())
    _open(users).add(user, replace=replace)
    if json:
        print_json({"user": user.user, "users": str(users)})
        return
    if user.user != name:
        note(f"The name is kept as {user.user}, which is how logins compare {name!a}.")
    note(f"{user.user} can log in to servers that use {users}.")


@app.command()
def remove(name: Name, users: Users = USERS_DEFAULT, json: options.Json = False) -> None:
    """Remove a user."""
    _open(users).remove(name)
    if json:
        print_json({"user": name, "users": str(users)})
    else:
        note(f"{name} is no longer in {users}.")


@app.command("list")
def list_users(users: Users = USERS_DEFAULT, json: options.Json = False) -> None:
    """List the names of all users."""
    names = _open(users).names()
    if json:
        print_json(names)
    else:
        print_table(("user",), [(name,) for name in names])


def _password_line() -> str:
    # With its end, and one more, by which a line that is too long is found out and refused.
    line = sys.stdin.readline(PASSWORD_BYTES_MAX + 2).rstrip("\n")
    if not line:
        raise ConfigError("Standard input held no password; write it there, or leave --password-stdin away.")
    return line


def _ask_password() -> str:
    if not sys.stdin.isatty():
        raise ConfigError("There is no terminal to ask for a password; use --password-stdin.")
    from getpass import getpass

    password = getpass("Password: ")
    if not password:
        raise ConfigError("A password must not be empty.")
    if getpass("Once more: ") != password:
        raise ConfigError("The two passwords differ; nothing was changed.")
    return password
