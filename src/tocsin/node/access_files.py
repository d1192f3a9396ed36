"""Who may come in, from files that may change while the server runs: users and certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from tocsin.node.config import ServerConfig
from tocsin.runtime.tls import Certificate, reload_certificate, server_context
from tocsin.runtime.users_file import Users, UsersFile
from tocsin.wire.scram import Credentials


class AccessFiles:
    """Raises ConfigError when a file is missing or wrong."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._users = self._load_users()
        self.tls: ssl.SSLContext | None = None

    @property
    def finder(self) -> Callable[[str], Credentials | None] | None:
        """Finds a user's credentials, as the file was read last; None where nobody has to log in."""
        return None if self._users is None else self._find

    def make_tls(self) -> ssl.SSLContext | None:
        if self._config.tls_cert is not None:
            self.tls = server_context(self._certificate(), client_ca=self._config.tls_client_ca)
        return self.tls

    def url(self, port: int) -> str:
        scheme = "tocsins" if self.tls is not None else "tocsin"
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        return f"{scheme}://{host}:{port}"

    def reload(self) -> None:
        """Takes what was changed on disk, for connections from now on; when anything is wrong, all stays as it was."""
        users = self._load_users()
        if self.tls is not None:
            reload_certificate(self.tls, self._certificate())
        self._users = users

    def _load_users(self) -> Users[Credentials] | None:
        path = self._config.users_file
        return None if path is None else UsersFile(path, Credentials).load()

    def _find(self, name: str) -> Credentials | None:
        return None if self._users is None else self._users.find(name)

    def _certificate(self) -> Certificate:
        config = self._config
        assert config.tls_cert is not None
        return Certificate(config.tls_cert, config.tls_key or config.tls_cert)
