"""Options as Spark hands them over: texts under names without case. A mistake gets a sentence that names the option."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from tocsin.model.errors import ConfigError

_FLAGS = {"true": True, "false": False}


class OptionValues:
    """What the user has set, read by name. `known` lists every name that may be set, as the documentation spells it."""

    __slots__ = ("_values",)

    def __init__(self, options: Mapping[str, str], known: Iterable[str], what: str) -> None:
        names = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for given, value in options.items():
            if given.lower() not in names:
                raise ConfigError(_unknown(given, names, what))
            self._values[given.lower()] = value

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def required(self, name: str, example: str) -> str:
        value = self.text(name)
        if not value:
            raise ConfigError(f"The option {name} is missing; set it as in .option({name!r}, {example!r}).")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.strip().lower() not in _FLAGS:
            raise ConfigError(f"The option {name} is true or false, not {value!r}.")
        return _FLAGS[value.strip().lower()]

    def number(self, name: str, default: int, least: int = 1) -> int:
        found = self.optional_number(name, least)
        return default if found is None else found

    def optional_number(self, name: str, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            raise ConfigError(f"The option {name} is a whole number, not {value!r}.") from None
        if number < least:
            raise ConfigError(f"The option {name} is a whole number from {least} on, not {value}.")
        return number

    def seconds(self, name: str, default: float | None) -> float | None:
        value = self.text(name)
        if value is None:
            return default
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < 1e9:
            raise ConfigError(f"The option {name} is a number of seconds greater than 0, not {value!r}.")
        return number

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of some words; the first of them unless the user says otherwise."""
        value = self.text(name)
        if value is None:
            return choices[0]
        word = value.strip().lower()
        if word not in choices:
            raise ConfigError(f"The option {name} is {' or '.join(choices)}, not {value!r}.")
        return word


def _unknown(given: str, names: Mapping[str, str], what: str) -> str:
    nearest = get_close_matches(given.lower(), names, n=1, cutoff=0.5)
    if nearest:
        return f"{given!r} is no option of {what}; did you mean {names[nearest[0]]!r}?"
    return f"{given!r} is no option of {what}; there are {', '.join(sorted(names.values()))}."
