"""Configuration of one server: defaults, then a TOML file, then the command line; the later one wins.

`ServerConfig` is the list of all settings. A file is flat TOML with the same names:

    port = 7200
    data_dir = "data"          # relative to the folder of the file
    sync = "interval"
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from tocsin.model import limits
from tocsin.model.errors import ConfigError
from tocsin.node.setting_checks import Check, boolean, name, one_of, optional_path, path, seconds, text, whole_number
from tocsin.node.toml_file import read_toml
from tocsin.runtime.local import is_loopback

PORT_DEFAULT = 7177


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """All settings of one server, checked when the object is made; ConfigError says what to change."""

    node: str = "node-1"
    site: str = "site-1"

    host: str = "127.0.0.1"
    # Port 0 lets the system choose; the server then says which one it got.
    port: int = PORT_DEFAULT
    # In the data directory: a shorter way for processes of the server's own user on this machine.
    local_socket: bool = True

    data_dir: Path = Path("tocsin-data")
    # "always": nothing is confirmed before it is on disk. "interval": a power failure may lose that much.
    sync: Literal["always", "interval"] = "always"
    sync_interval_ms: int = 100
    segment_bytes: int = limits.SEGMENT_BYTES_DEFAULT
    cache_bytes: int = limits.CACHE_BYTES_DEFAULT
    max_message_bytes: int = limits.MESSAGE_BYTES_DEFAULT

    users_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    # With an authority for clients, only clients with a certificate from it are let in.
    tls_client_ca: Path | None = None

    # Failed deliveries of a message before it goes to _DMQ.
    redelivery_limit: int = limits.REDELIVERY_LIMIT
    # 0 delivers again at once, which keeps the order of a queue after recover() and rollback().
    redelivery_backoff_ms: int = 0
    # How long a consumer may hold a message without a sign of life. 30 s spans two missed heartbeats of 10 s,
    # so a hiccup takes no message away; longer would only make others wait for what a hung consumer holds.
    lease_s: float = limits.LEASE_SECONDS
    session_grace_s: float = limits.SESSION_GRACE_SECONDS
    # How long a new connection may take until it has logged in.
    login_s: float = limits.LOGIN_SECONDS_MAX
    heartbeat_s: float = limits.HEARTBEAT_SECONDS

    def __post_init__(self) -> None:
        for setting, check in SETTING_CHECKS.items():
            object.__setattr__(self, setting, _checked(setting, check, getattr(self, setting)))
        _check_tls(self)
        _check_address(self)
        _check_sizes(self)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def max_block_bytes(self) -> int:
        """The largest block of messages that clients may make: with what is written around it, it is a record of the
        journal, and no record is larger than half a segment.
        """
        return min(limits.BLOCK_BYTES_MAX, self.segment_bytes // 2 - limits.BLOCK_OVERHEAD_BYTES // 2)


SETTING_CHECKS: Mapping[str, Check] = {
    "node": name,
    "site": name,
    "host": text,
    "port": whole_number(0, 65_535),
    "local_socket": boolean,
    "data_dir": path,
    "sync": one_of("always", "interval"),
    "sync_interval_ms": whole_number(1, 60_000),
    "segment_bytes": whole_number(limits.SEGMENT_BYTES_MIN, 1024 * limits.MIB),
    "cache_bytes": whole_number(0, 1024 * 1024 * limits.MIB),
    "max_message_bytes": whole_number(1, limits.MESSAGE_BYTES_MAX),
    "users_file": optional_path,
    "tls_cert": optional_path,
    "tls_key": optional_path,
    "tls_client_ca": optional_path,
    "redelivery_limit": whole_number(1, 1_000_000),
    "redelivery_backoff_ms": whole_number(0, 3_600_000),
    "lease_s": seconds(0.1, 86_400),
    "session_grace_s": seconds(0, 3_600),
    "login_s": seconds(0.1, 3_600),
    "heartbeat_s": seconds(0.1, 3_600),
}
assert list(SETTING_CHECKS) == [setting.name for setting in fields(ServerConfig)], "a setting without its check"


def load_config(file: Path | None = None, overrides: Mapping[str, object] | None = None) -> ServerConfig:
    """The configuration from `file` and from `overrides` (the command line), where None means not given."""
    settings: dict[str, Any] = {} if file is None else _read_file(file)
    for setting, value in (overrides or {}).items():
        if setting not in SETTING_CHECKS:
            raise ConfigError(f"There is no setting {setting!r}; {_nearest(setting)}.")
        if value is not None:
            settings[setting] = value
    return ServerConfig(**settings)


def _read_file(file: Path) -> dict[str, Any]:
    content = read_toml(file)
    settings: dict[str, Any] = {}
    for setting, value in content.items():
        if setting not in SETTING_CHECKS:
            raise ConfigError(f"There is no setting {setting!r}, as {file} has it; {_nearest(setting)}.")
        checked = _checked(setting, SETTING_CHECKS[setting], value, where=f" in {file}")
        # A file means the same wherever the server is started from.
        settings[setting] = file.parent / checked if isinstance(checked, Path) else checked
    return settings


def _checked(setting: str, check: Check, value: object, where: str = "") -> object:
    try:
        return check(value)
    except ValueError as expected:
        raise ConfigError(f"The setting {setting}{where} must be {expected}, not {value!r}.") from None


def _nearest(setting: str) -> str:
    # Bounded, since the time to compare grows with the square of the length.
    (nearest,) = difflib.get_close_matches(setting[:64], SETTING_CHECKS, n=1, cutoff=0.0)
    return f"the nearest valid one is {nearest!r}"


def _check_tls(config: ServerConfig) -> None:
    if (config.tls_cert is None) != (config.tls_key is None):
        given, missing = ("tls_cert", "tls_key") if config.tls_key is None else ("tls_key", "tls_cert")
        raise ConfigError(f"The setting {given} needs {missing} beside it: a certificate works with its key.")
    if config.tls_client_ca is not None and config.tls_cert is None:
        raise ConfigError("The setting tls_client_ca needs tls_cert and tls_key: it is a part of TLS.")


def _check_address(config: ServerConfig) -> None:
    needed = []
    if config.users_file is None:
        needed.append("users_file")
    if config.tls_cert is None:
        needed.append("tls_cert with tls_key")
    if needed and not config.is_loopback:
        raise ConfigError(
            f"The server refuses to listen on {config.host}, where other machines can reach it, before these"
            f" are set: {' and '.join(needed)}. For this machine alone use host 127.0.0.1."
        )


def _check_sizes(config: ServerConfig) -> None:
    largest_block = config.max_message_bytes + limits.BLOCK_OVERHEAD_BYTES
    if largest_block > config.segment_bytes // 2:
        raise ConfigError(
            f"A message of max_message_bytes ({config.max_message_bytes:,}) must fit half a journal segment:"
            f" set segment_bytes to at least {2 * largest_block:,}, or make max_message_bytes smaller."
        )
