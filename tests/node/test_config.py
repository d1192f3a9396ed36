from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tocsin.model.errors import ConfigError
from tocsin.model.limits import BLOCK_BYTES_MAX
from tocsin.node.config import ServerConfig, load_config

SECURED = {"users_file": "users", "tls_cert": "server.crt", "tls_key": "server.key"}


def write(folder: Path, content: str) -> Path:
    file = folder / "tocsin.toml"
    file.write_text(content)
    return file


def test_defaults() -> None:
    config = load_config()
    assert config == ServerConfig()
    assert (config.host, config.port, config.sync) == ("127.0.0.1", 7177, "always")
    assert (config.max_message_bytes, config.cache_bytes) == (8 * 1024 * 1024, 64 * 1024 * 1024)
    assert (config.redelivery_limit, config.lease_s) == (10, 30)
    assert (config.session_grace_s, config.heartbeat_s) == (5, 10)


def test_command_line_wins_over_file_and_file_over_defaults(tmp_path: Path) -> None:
    file = write(tmp_path, 'port = 7200\nsync = "interval"\nsync_interval_ms = 20')
    config = load_config(file, {"port": 7300, "sync": None, "host": None})
    assert (config.port, config.sync, config.sync_interval_ms, config.host) == (
        7300,
        "interval",
        20,
        "127.0.0.1",
    )


def test_paths_of_a_file_are_relative_to_it_and_those_of_the_command_line_are_not(tmp_path: Path) -> None:
    file = write(tmp_path, 'data_dir = "data"\nusers_file = "/etc/users"')
    config = load_config(file)
    assert config.data_dir == tmp_path / "data"
    assert config.users_file == Path("/etc/users")
    assert load_config(file, {"data_dir": "data"}).data_dir == Path("data")


def test_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        ServerConfig().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("prot", "port"), ("data-dir", "data_dir"), ("heartbeat", "heartbeat_s"), ("tls_keys", "tls_key")],
)
def test_unknown_setting_names_the_nearest_one(tmp_path: Path, wrong: str, right: str) -> None:
    file = write(tmp_path, f'"{wrong}" = 1')
    with pytest.raises(ConfigError, match=rf"'{wrong}', as .*tocsin\.toml has it; the nearest .* is '{right}'"):
        load_config(file)
    with pytest.raises(ConfigError, match=rf"no setting '{wrong}'; the nearest valid one is '{right}'"):
        load_config(None, {wrong: 1})


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("port", 65_536),
        ("port", -1),
        ("port", True),
        ("port", "7177"),
        ("port", 7177.0),
        ("host", ""),
        ("host", 5),
        ("sync", "never"),
        ("sync", 1),
        ("sync_interval_ms", 0),
        ("segment_bytes", 1),
        ("max_message_bytes", 0),
        ("max_message_bytes", 2**31),
        ("cache_bytes", -1),
        ("redelivery_limit", 0),
        ("redelivery_backoff_ms", -1),
        ("lease_s", 0),
        ("lease_s", float("nan")),
        ("lease_s", float("inf")),
        ("heartbeat_s", "10"),
        ("session_grace_s", False),
        ("users_file", 3),
        ("data_dir", ""),
        ("data_dir", "a\0b"),
        ("node", "no spaces"),
        ("site", ""),
    ],
)
def test_bad_value_names_the_setting_and_what_it_must_be(setting: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"The setting {setting} must be .*, not "):
        load_config(None, {setting: value})


def test_bad_value_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "port = 99999")
    with pytest.raises(ConfigError, match=r"port in .*tocsin\.toml must be a whole number from 0 to 65,535"):
        load_config(file)


def test_missing_and_malformed_files_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml cannot be read: No such file"):
        load_config(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match=r"not valid TOML: .*line 1"):
        load_config(write(tmp_path, "port = = 1"))
    (tmp_path / "tocsin.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(tmp_path / "tocsin.toml")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_security(host: str) -> None:
    assert load_config(None, {"host": host}).is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "mill.example", "localhost.mill.example"])
def test_other_addresses_need_users_and_tls(host: str) -> None:
    with pytest.raises(ConfigError, match=r"users_file and tls_cert with tls_key"):
        load_config(None, {"host": host})
    with pytest.raises(ConfigError, match=r"are set: tls_cert with tls_key\."):
        load_config(None, {"host": host, "users_file": "users"})
    with pytest.raises(ConfigError, match=r"are set: users_file\."):
        load_config(None, {**SECURED, "host": host, "users_file": None})
    assert not load_config(None, {**SECURED, "host": host}).is_loopback


def test_tls_settings_come_together() -> None:
    with pytest.raises(ConfigError, match="tls_cert needs tls_key"):
        load_config(None, {"tls_cert": "server.crt"})
    with pytest.raises(ConfigError, match="tls_key needs tls_cert"):
        load_config(None, {"tls_key": "server.key"})
    with pytest.raises(ConfigError, match="tls_client_ca needs"):
        load_config(None, {"tls_client_ca": "ca.crt"})


def test_largest_message_fits_half_a_segment() -> None:
    with pytest.raises(ConfigError, match="segment_bytes to at least 17,301,504"):
        load_config(None, {"segment_bytes": 17_301_503})
    assert load_config(None, {"segment_bytes": 17_301_504}).segment_bytes == 17_301_504


def test_a_block_of_a_client_always_fits_half_a_segment_and_holds_the_largest_message() -> None:
    for segment, message in ((17_301_504, 8 * 1024 * 1024), (1024 * 1024, 128 * 1024), (640 * 1024, 4 * 1024)):
        config = load_config(None, {"segment_bytes": segment, "max_message_bytes": message})
        assert message < config.max_block_bytes < segment // 2
    assert load_config(None, {}).max_block_bytes == BLOCK_BYTES_MAX
