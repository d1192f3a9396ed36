"""TOML files of settings: read whole and bounded, each setting through its check, each complaint a sentence."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tocsin.model.errors import ConfigError
from tocsin.model.limits import CONFIG_FILE_BYTES_MAX
from tocsin.node.setting_checks import Check


def read_toml(file: Path) -> dict[str, Any]:
    try:
        with open(file, "rb") as source:
            data = source.read(CONFIG_FILE_BYTES_MAX + 1)
    except OSError as reason:
        raise ConfigError(f"The configuration file {file} cannot be read: {reason.strerror}.") from reason
    if len(data) > CONFIG_FILE_BYTES_MAX:
        raise ConfigError(f"The configuration file {file} is over {CONFIG_FILE_BYTES_MAX:,} bytes.")
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as reason:
        raise ConfigError(f"The configuration file {file} is not valid TOML: {reason}.") from reason


def read_table(
    table: object, checks: Mapping[str, Check], where: str, file: Path, required: tuple[str, ...] = ()
) -> dict[str, Any]:
    """One table of a file, each setting through its check; a sentence for what is unknown, wrong or missing."""
    if not isinstance(table, dict):
        raise ConfigError(f"The file {file} needs the part {where}.")
    read: dict[str, Any] = {}
    for setting, value in table.items():
        if setting not in checks:
            (nearest,) = difflib.get_close_matches(str(setting)[:64], checks, n=1, cutoff=0.0)
            raise ConfigError(f"There is no setting {setting!r} in {where} of {file}; the nearest is {nearest!r}.")
        try:
            read[setting] = checks[setting](value)
        except ValueError as expected:
            raise ConfigError(
                f"The setting {setting} in {where} of {file} must be {expected}, not {value!r}."
            ) from None
    for setting in required:
        if setting not in read:
            raise ConfigError(f"The setting {setting} is missing in {where} of {file}.")
    return read
