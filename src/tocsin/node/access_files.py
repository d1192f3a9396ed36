"""Who may come in, from files that may change while the server runs: users, certificates, and whose to trust."""

from __future__ import annotations

import logging
import shlex
import ssl
from collections.abc import Callable, Sequence

from tocsin.model.errors import ConfigError
from tocsin.model.limits import PASSWORD_ITERATIONS_MIN
from tocsin.node.config import ServerConfig
from tocsin.runtime.ownership import is_open
from tocsin.runtime.tls import Certificate, server_context, shown_certificate
from tocsin.runtime.users_file import Users, UsersFile
from tocsin.wire.channel_binding import server_end_point
from tocsin.wire.decoys import Shape, Shapes
from tocsin.wire.scram import Credentials

log = logging.getLogger("tocsin")


class AccessFiles:
    """Raises ConfigError when a file is missing or wrong."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._users = self._load_users()
        self._shapes = self._shapes_of(self._users)
        self.tls: ssl.SSLContext | None = None
        # Of the certificate in use, and of the one before: a connection may have begun with that.
        self._bindings: list[bytes] = []

    @property
    def finder(self) -> Callable[[str], Credentials | None] | None:
        """Finds a user's credentials, as the file was read last; None where nobody has to log in."""
        return None if self._users is None else self._find

    def shapes(self) -> Shapes:
        """What logins of these users show, for those of names that nobody has."""
        return self._shapes

    def open_tls(self) -> Callable[[], ssl.SSLContext] | None:
        """Returns what has the context of the next handshake, as the files were read last; None without TLS."""
        if self._config.tls_cert is None:
            return None
        self._bindings, self.tls = [self._binding()], self._context()
        return self._in_use

    def bindings(self) -> Sequence[bytes]:
        """What a login over TLS to this server may be bound to."""
        return self._bindings

    def url(self, port: int) -> str:
        scheme = "tocsins" if self.tls is not None else "tocsin"
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        return f"{scheme}://{host}:{port}"

    def reload(self) -> None:
        """Takes what was changed on disk; when anything is wrong, all stays as it was."""
        users = self._load_users()
        if self.tls is not None:
            # A new one, because an authority can't be withdrawn from one that is there.
            binding, self.tls = self._binding(), self._context()
            self._bindings = list(dict.fromkeys((binding, *self._bindings)))[:2]
        self._users, self._shapes = users, self._shapes_of(users)

    @staticmethod
    def _shapes_of(users: Users[Credentials] | None) -> Shapes:
        found = () if users is None else users.by_name.values()
        return Shapes(Shape(user.iterations, len(user.salt)) for user in found)

    def _load_users(self) -> Users[Credentials] | None:
        path = self._config.users_file
        if path is None:
            return None
        users = UsersFile(path, Credentials).load()
        if not users.by_name:
            log.warning(
                "The users file %s has no users, so nobody can log in: add one with `tocsin user add`, send SIGHUP.",
                path,
            )
        weak = [each.user for each in users.by_name.values() if each.iterations < PASSWORD_ITERATIONS_MIN]
        if weak:
            log.warning(
                "%d users of %s, such as %r, have passwords with fewer than %s iterations, which clients refuse:"
                " set each of them again with `tocsin user add --replace`.",
                len(weak),
                path,
                weak[0],
                f"{PASSWORD_ITERATIONS_MIN:,}",
            )
        return users

    def _find(self, name: str) -> Credentials | None:
        return None if self._users is None else self._users.find(name)

    def _binding(self) -> bytes:
        own = self._certificate()
        try:
            return server_end_point(shown_certificate(own))
        except ValueError as reason:
            raise ConfigError(f"The TLS certificate {own.certificate} cannot be used: {reason}") from reason

    def _in_use(self) -> ssl.SSLContext:
        assert self.tls is not None
        return self.tls

    def _context(self) -> ssl.SSLContext:
        key = self._certificate().key
        if is_open(key):
            log.warning(
                "Other users may read or change the TLS key %s, and so be taken for this server; run: chmod 600 %s",
                key,
                shlex.quote(str(key)),
            )
        return server_context(self._certificate(), client_ca=self._config.tls_client_ca)

    def _certificate(self) -> Certificate:
        config = self._config
        assert config.tls_cert is not None
        return Certificate(config.tls_cert, config.tls_key or config.tls_cert)
