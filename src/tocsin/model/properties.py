"""The properties of a message: typed values under names that a selector can use.

A name is a Java identifier and no reserved word of the selector language. Names that begin with JMS belong to the
specification and to vendors: of them an application may set JMSXGroupID, JMSXGroupSeq and those that begin with JMS_.
A value is a bool, a whole or floating point number of any JMS width, or a string. None is the value of a property that
is not set, so setting None removes it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

from tocsin.model.conversion import convert
from tocsin.model.errors import MessageFormatError, MessageNotWriteable
from tocsin.model.limits import PROPERTIES_MAX, PROPERTY_NAME_BYTES_MAX
from tocsin.model.values import Int, Type, type_of

GROUP_ID = "JMSXGroupID"
GROUP_SEQUENCE = "JMSXGroupSeq"
DELIVERY_COUNT = "JMSXDeliveryCount"
JMSX_NAMES = (GROUP_ID, GROUP_SEQUENCE, DELIVERY_COUNT)

RESERVED_WORDS = frozenset({"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"})
_TYPES = frozenset({Type.BOOLEAN, Type.BYTE, Type.SHORT, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.STRING})
_STARTS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_PARTS = _STARTS | {"Nd", "Mn", "Mc", "Cf"}


class Properties(MutableMapping[str, Any]):
    """A mapping that checks names and values, and refuses changes while it is read-only."""

    __slots__ = ("_read_only", "_values")

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        self._read_only = False
        if values is not None:
            self.update(values)

    @classmethod
    def received(cls, values: dict[str, Any]) -> Properties:
        """Those of a received message: taken as they are, read-only."""
        made = cls.__new__(cls)
        made._values = values
        made._read_only = True
        return made

    def get_as(self, name: str, wanted: type) -> Any:
        """The value read as another JMS type, by the conversion table; an unset property counts as null."""
        return convert(self._values.get(name), wanted)

    def as_dict(self) -> dict[str, Any]:
        """The values by name, as they stand; for reading only."""
        return self._values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._check_writeable()
        if value is None:
            self._values.pop(name, None)
            return
        check_property_name(name)
        if name not in self._values and len(self._values) >= PROPERTIES_MAX:
            raise MessageFormatError(f"A message has {PROPERTIES_MAX} properties at most.")
        self._values[name] = check_property_value(name, value)

    def __delitem__(self, name: str) -> None:
        self._check_writeable()
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __repr__(self) -> str:
        return f"Properties({self._values!r})"

    def _check_writeable(self) -> None:
        if self._read_only:
            raise MessageNotWriteable(
                "The properties of a received message are read-only; call clear_properties() first."
            )


@lru_cache(maxsize=1024)
def check_property_name(name: object) -> str:
    """Returns a name that an application may set; says what is wrong with any other."""
    if not isinstance(name, str) or not name:
        raise MessageFormatError(f"{name!r} is no property name; a name is a string that is not empty.")
    if len(name.encode("utf-8", "surrogatepass")) > PROPERTY_NAME_BYTES_MAX:
        raise MessageFormatError(f"The property name {name[:40]!r}... is longer than {PROPERTY_NAME_BYTES_MAX} bytes.")
    if unicodedata.category(name[0]) not in _STARTS or any(
        unicodedata.category(character) not in _PARTS for character in name[1:]
    ):
        raise MessageFormatError(
            f"The property name {name!r} is no identifier; use letters, digits, _ and $, no digit first."
        )
    if name.isascii() and name.upper() in RESERVED_WORDS:
        raise MessageFormatError(f"The property name {name!r} is a reserved word of selectors.")
    if name.startswith("JMS") and not name.startswith("JMS_") and name not in (GROUP_ID, GROUP_SEQUENCE):
        raise MessageFormatError(
            f"The property name {name!r} is reserved: of the names that begin with JMS only "
            f"{GROUP_ID}, {GROUP_SEQUENCE} and names that begin with JMS_ can be set."
        )
    return name


def check_property_value(name: str, value: Any) -> Any:
    kind = type_of(value)
    if kind not in _TYPES:
        raise MessageFormatError(
            f"The property {name!r} can't be a {type(value).__name__}; use bool, int, float or str."
        )
    if kind is Type.LONG and not -(1 << 63) <= value < 1 << 63:
        raise MessageFormatError(f"The property {name!r} is {value}, which does not fit 64 bits.")
    if kind is Type.STRING:
        _check_text(name, value)
    if name == GROUP_SEQUENCE:
        return Int(value)
    if name == GROUP_ID and kind is not Type.STRING:
        raise MessageFormatError(f"{GROUP_ID} is a string, not a {type(value).__name__}.")
    return value


def _check_text(name: str, value: str) -> None:
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise MessageFormatError(f"The text of property {name!r} can't be written as UTF-8.") from error
