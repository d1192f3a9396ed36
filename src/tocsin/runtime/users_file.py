"""The users file: who may log in, as salted keys. It holds no password.

    line 1    tocsin-users 1 <secret>                                   format version, secret of the decoys
    line 2..  <name> <iterations> <salt> <stored key> <server key>      one user each, sorted by name

Fields are separated by one space; a name may contain spaces, the other fields may not, so a line is read from
its end. Secret, salt and keys are base64. The file belongs to its owner alone (mode 0600) and is replaced as
a whole: a temporary file, fsync, rename, fsync of the folder, so that a crash leaves the old or the new one.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from tocsin.model.errors import ConfigError, NewerFormat
from tocsin.model.limits import (
    PASSWORD_ITERATIONS_MAX,
    PASSWORD_ITERATIONS_MIN,
    PASSWORD_ITERATIONS_READ_MIN,
    USER_NAME_BYTES_MAX,
    USERS_FILE_BYTES_MAX,
)
from tocsin.model.spelling import check_spelling
from tocsin.runtime.ownership import check_link, check_private, open_regular

FORMAT_NAME = "tocsin-users"
FORMAT_VERSION = 1
SECRET_BYTES = 32
SALT_BYTES = 16
KEY_BYTES = 32


class SaltedUser(Protocol):
    """What one line holds. The login's own type fits; the wire that defines it lies above this layer."""

    @property
    def user(self) -> str: ...
    @property
    def salt(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...


User = TypeVar("User", bound=SaltedUser)
MakeUser = Callable[[str, bytes, int, bytes, bytes], User]


@dataclass(frozen=True, slots=True)
class Users(Generic[User]):
    """What the file held when it was read. `secret` is for decoys: what a login shows for unknown names."""

    secret: bytes = field(repr=False)
    by_name: Mapping[str, User]

    def find(self, name: str) -> User | None:
        return self.by_name.get(name)


class UsersFile(Generic[User]):
    """The file at `path`; `make(user, salt, iterations, stored_key, server_key)` builds what it hands out."""

    def __init__(self, path: Path, make: MakeUser[User]) -> None:
        self._path = path
        self._make = make

    def load(self) -> Users[User]:
        """Read the whole file; ConfigError names the line that is wrong."""
        lines = _read(self._path).split("\n")
        if lines.pop() != "":
            raise ConfigError(f"The users file {self._path} is cut off: its last line has no end.")
        secret = self._parse_first_line(lines[0] if lines else "")
        users: dict[str, User] = {}
        for number, line in enumerate(lines[1:], start=2):
            user = self._parse_line(number, line)
            if user.user in users:
                raise self._bad_line(number, f"the user {user.user!r} appears a second time")
            users[user.user] = user
        return Users(secret, MappingProxyType(users))

    def names(self) -> list[str]:
        return sorted(self.load().by_name)

    def add(self, user: User, *, replace: bool = False) -> None:
        """Add one user, and make the file if there is none. `replace` is how a password is changed."""
        _check_user(user, PASSWORD_ITERATIONS_MIN)
        with self._changing() as users:
            if user.user not in users:
                check_spelling(user.user, "user name", ConfigError)
            elif not replace:
                raise ConfigError(f"The user {user.user!r} exists already in {self._path}.")
            users[user.user] = user

    def remove(self, name: str) -> None:
        with self._changing() as users:
            if name not in users:
                raise ConfigError(f"There is no user {name!r} in {self._path}.")
            del users[name]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, User]]:
        """The users, to be changed by one process at a time, and written at the end: the lock is on a file beside that
        stays. Where the path is a link all of this is done where it leads, since others may come there by another way.
        """
        check_link("users file", self._path)
        path = Path(os.path.realpath(self._path))
        lock = path.with_name(path.name + ".lock")
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as reason:
            raise ConfigError(f"The users file {self._path} cannot be changed: {reason.strerror}.") from reason
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            new: Users[User] = Users(secrets.token_bytes(SECRET_BYTES), {})
            held = self.load() if os.path.lexists(path) else new
            users = dict(held.by_name)
            yield users
            self._write(path, held.secret, users)
        finally:
            os.close(handle)

    def _write(self, path: Path, secret: bytes, users: Mapping[str, User]) -> None:
        lines = [f"{FORMAT_NAME} {FORMAT_VERSION} {_encode(secret)}"]
        for name in sorted(users):
            user = users[name]
            keys = " ".join(map(_encode, (user.salt, user.stored_key, user.server_key)))
            lines.append(f"{name} {user.iterations} {keys}")
        try:
            _replace(path, ("\n".join(lines) + "\n").encode())
        except OSError as reason:
            raise ConfigError(f"The users file {self._path} cannot be written: {reason.strerror}.") from reason

    def _parse_first_line(self, line: str) -> bytes:
        name, _, rest = line.partition(" ")
        version, _, secret = rest.partition(" ")
        if name != FORMAT_NAME or not _is_number(version) or int(version) < 1:
            raise self._bad_line(1, f"it must begin with '{FORMAT_NAME} {FORMAT_VERSION}'")
        if int(version) > FORMAT_VERSION:
            raise NewerFormat(f"The users file {self._path} has format {version}; this release reads {FORMAT_VERSION}.")
        return self._decode(1, "secret", secret, SECRET_BYTES, SECRET_BYTES)

    def _parse_line(self, number: int, line: str) -> User:
        fields = line.rsplit(" ", 4)
        if len(fields) != 5:
            raise self._bad_line(number, "it must hold a name, iterations, salt, stored key and server key")
        name, iterations, salt, stored_key, server_key = fields
        if not _is_number(iterations):
            raise self._bad_line(number, "the iterations are not a number")
        user = self._make(
            name,
            self._decode(number, "salt", salt, 8, 64),
            int(iterations),
            self._decode(number, "stored key", stored_key, KEY_BYTES, KEY_BYTES),
            self._decode(number, "server key", server_key, KEY_BYTES, KEY_BYTES),
        )
        try:
            # One that was made with fewer than now must be readable, or its password could not be set again.
            _check_user(user, PASSWORD_ITERATIONS_READ_MIN)
        except ConfigError as reason:
            raise self._bad_line(number, str(reason).rstrip(".")) from None
        return user

    def _decode(self, number: int, what: str, text: str, bytes_min: int, bytes_max: int) -> bytes:
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise self._bad_line(number, f"the {what} is not base64") from None
        if not bytes_min <= len(data) <= bytes_max:
            raise self._bad_line(number, f"the {what} has {len(data)} bytes")
        return data

    def _bad_line(self, number: int, reason: str) -> ConfigError:
        # The line itself is not shown: it holds keys.
        return ConfigError(f"Line {number} of the users file {self._path} is wrong: {reason}.")


def new_salt() -> bytes:
    return secrets.token_bytes(SALT_BYTES)


def _check_user(user: SaltedUser, iterations_min: int) -> None:
    name = user.user
    if not name.isprintable() or name != name.strip():
        raise ConfigError("A user name has printable characters only, and no space at its ends.")
    if not 1 <= len(name.encode()) <= USER_NAME_BYTES_MAX:
        raise ConfigError(f"A user name has 1 to {USER_NAME_BYTES_MAX} bytes.")
    if not iterations_min <= user.iterations <= PASSWORD_ITERATIONS_MAX:
        raise ConfigError(f"Iterations are {iterations_min:,} to {PASSWORD_ITERATIONS_MAX:,}, not {user.iterations:,}.")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _read(path: Path) -> str:
    try:
        with open_regular("users file", path) as file:
            check_private("users file", path, os.fstat(file.fileno()))
            data = file.read(USERS_FILE_BYTES_MAX + 1)
    except OSError as reason:
        raise ConfigError(f"The users file {path} cannot be read: {reason.strerror}.") from reason
    if len(data) > USERS_FILE_BYTES_MAX:
        raise ConfigError(f"The users file {path} is over {USERS_FILE_BYTES_MAX:,} bytes.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"The users file {path} is not UTF-8 text.") from None


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    # A leftover of a crash is overwritten: the lock says that nobody is writing it now.
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
