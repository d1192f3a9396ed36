"""One message as the application sees it.

A message that an application makes is a body, properties and the headers it sets. The headers that a send decides
(destination, id, timestamp, expiration, delivery time, delivery mode, priority) are written back into it by the send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar, cast

from tocsin.model.batch import DeliveryMode
from tocsin.model.destination import Destination
from tocsin.model.errors import IllegalState, MessageFormatError
from tocsin.model.identity import show_id
from tocsin.model.properties import GROUP_ID, GROUP_SEQUENCE, Properties
from tocsin.model.values import Int

T = TypeVar("T")
ClassOf = type[T]
"""`type` names a header inside the class below."""

MODE_WORDS = {DeliveryMode.PERSISTENT: "persistent", DeliveryMode.NON_PERSISTENT: "non_persistent"}
MODES = {word: mode for mode, word in MODE_WORDS.items()}
PRIORITY_DEFAULT = 4

_BYTES_PREFIX = "ID:BYTES:"
"""How a correlation id of bytes is written as text; names that begin with ID: are the provider's to give."""

_DEFAULTS: dict[str, Any] = {
    "timestamp": 0,
    "expiration": 0,
    "delivery_time": 0,
    "delivery_mode": "persistent",
    "priority": PRIORITY_DEFAULT,
    "redelivered": False,
    "delivery_count": 0,
}


def message_id(producer_id: bytes, sequence: int) -> str:
    """The id of a message: who sent it, and which of that producer's messages it is."""
    return f"ID:{show_id(producer_id)}-{sequence:x}"


def correlation_to_text(value: str | bytes) -> str:
    return value if isinstance(value, str) else _BYTES_PREFIX + bytes(value).hex()


def correlation_from_text(text: str) -> str | bytes:
    if text.startswith(_BYTES_PREFIX):
        try:
            return bytes.fromhex(text.removeprefix(_BYTES_PREFIX))
        except ValueError:
            return text
    return text


class Message:
    """A message to send. Its object can be changed and sent again at any time: a send takes a copy."""

    # Everything lives in one mapping, so that a received message costs three references until somebody changes it.
    __slots__ = ("_fields",)
    _fields: dict[str, Any] | None

    def __init__(
        self,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,  # noqa: A002  the header's own name
        key: str | bytes | None = None,
        group_id: str | None = None,
        group_sequence: int | None = None,
    ) -> None:
        self._fields = {
            "body": body,
            "properties": Properties(properties),
            "correlation_id": correlation_id,
            "reply_to": reply_to,
            "type": type,
            "key": key,
        }
        if group_id is not None:
            self.group_id = group_id
        if group_sequence is not None:
            self.group_sequence = group_sequence

    def _get(self, name: str) -> Any:
        fields = self._fields
        if fields is not None and name in fields:
            return fields[name]
        return self._original(name)

    def _set(self, name: str, value: Any) -> None:
        if self._fields is None:
            self._fields = {}
        self._fields[name] = value

    def _original(self, name: str) -> Any:
        """What a header is that nobody has set; a received message looks it up."""
        return _DEFAULTS.get(name)

    @property
    def body(self) -> Any:
        return self._get("body")

    @body.setter
    def body(self, value: Any) -> None:
        self._set("body", value)

    def clear_body(self) -> None:
        """Leaves no body, and one can be set; properties and headers stay."""
        self._set("body", None)

    def get_body(self, wanted: ClassOf[T]) -> T:
        """The body when it is of the type wanted; a message without a body gives None for any type."""
        body = self.body
        if body is not None and not isinstance(body, wanted):
            raise MessageFormatError(f"The body is a {type(body).__name__} and can't be taken as {wanted.__name__}.")
        return cast("T", body)

    def is_body_assignable_to(self, wanted: ClassOf[Any]) -> bool:
        """Whether `get_body` would give a body of this type."""
        body = self.body
        return body is None or isinstance(body, wanted)

    @property
    def properties(self) -> Properties:
        return self._get("properties")  # type: ignore[no-any-return]

    def clear_properties(self) -> None:
        """Leaves no properties, and new ones can be set; the body and headers stay."""
        self._set("properties", Properties())

    @property
    def destination(self) -> Destination | None:
        return self._get("destination")  # type: ignore[no-any-return]

    @destination.setter
    def destination(self, value: Destination | None) -> None:
        self._set("destination", value)

    @property
    def id(self) -> str | None:
        """ "ID:..." and unique; None before the send, and when the producer has switched ids off."""
        return self._get("id")  # type: ignore[no-any-return]

    @id.setter  # noqa: A003  the property above
    def id(self, value: str | None) -> None:
        self._set("id", value)

    @property
    def timestamp(self) -> int:
        """When it was sent, in ms since 1970; 0 when the producer has switched timestamps off."""
        return self._get("timestamp")  # type: ignore[no-any-return]

    @timestamp.setter
    def timestamp(self, value: int) -> None:
        self._set("timestamp", value)

    @property
    def correlation_id(self) -> str | bytes | None:
        return self._get("correlation_id")  # type: ignore[no-any-return]

    @correlation_id.setter
    def correlation_id(self, value: str | bytes | None) -> None:
        self._set("correlation_id", value)

    @property
    def reply_to(self) -> Destination | None:
        return self._get("reply_to")  # type: ignore[no-any-return]

    @reply_to.setter
    def reply_to(self, value: Destination | None) -> None:
        self._set("reply_to", value)

    @property
    def type(self) -> str | None:
        return self._get("type")  # type: ignore[no-any-return]

    @type.setter  # noqa: A003  the property above
    def type(self, value: str | None) -> None:
        self._set("type", value)

    @property
    def key(self) -> str | bytes | None:
        return self._get("key")  # type: ignore[no-any-return]

    @key.setter
    def key(self, value: str | bytes | None) -> None:
        self._set("key", value)

    @property
    def delivery_mode(self) -> str:
        """ "persistent" or "non_persistent"."""
        return self._get("delivery_mode")  # type: ignore[no-any-return]

    @delivery_mode.setter
    def delivery_mode(self, value: str) -> None:
        self._set("delivery_mode", value)

    @property
    def priority(self) -> int:
        return self._get("priority")  # type: ignore[no-any-return]

    @priority.setter
    def priority(self, value: int) -> None:
        self._set("priority", value)

    @property
    def expiration(self) -> int:
        """When it expires, in ms since 1970; 0 for never."""
        return self._get("expiration")  # type: ignore[no-any-return]

    @expiration.setter
    def expiration(self, value: int) -> None:
        self._set("expiration", value)

    @property
    def delivery_time(self) -> int:
        """Not delivered before, in ms since 1970."""
        return self._get("delivery_time")  # type: ignore[no-any-return]

    @delivery_time.setter
    def delivery_time(self, value: int) -> None:
        self._set("delivery_time", value)

    @property
    def redelivered(self) -> bool:
        return self._get("redelivered")  # type: ignore[no-any-return]

    @property
    def delivery_count(self) -> int:
        """Which attempt to deliver this is, from 1; also the property JMSXDeliveryCount."""
        return self._get("delivery_count")  # type: ignore[no-any-return]

    @property
    def group_id(self) -> str | None:
        return self.properties.get(GROUP_ID)

    @group_id.setter
    def group_id(self, value: str | None) -> None:
        self.properties[GROUP_ID] = value

    @property
    def group_sequence(self) -> int | None:
        return self.properties.get(GROUP_SEQUENCE)

    @group_sequence.setter
    def group_sequence(self, value: int | None) -> None:
        self.properties[GROUP_SEQUENCE] = None if value is None else Int(value)

    @property
    def offset(self) -> int | None:
        """Position in the destination; None before the message was received."""
        return self._get("offset")  # type: ignore[no-any-return]

    @property
    def append_time(self) -> int | None:
        """When the destination took it, in ms since 1970; None before the message was received."""
        return self._get("append_time")  # type: ignore[no-any-return]

    def ack(self) -> Awaitable[None]:
        """Acknowledges this message alone; coalesced with others it leaves within milliseconds.

        With tocsin.aio the result can be awaited, here and below: then the server has made it durable.
        """
        raise _not_received()

    def acknowledge(self) -> Awaitable[None]:
        """Acknowledges everything that its session has handed out so far; durable when the call returns."""
        raise _not_received()

    def nack(self, delay: float | None = None, reason: str = "") -> Awaitable[None]:
        """Gives the message back: counted as an attempt, offered again after the delay."""
        raise _not_received()

    def renew(self) -> Awaitable[None]:
        """Starts the lease of this message anew."""
        raise _not_received()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id or 'not sent'} to {self.destination}>"


def _not_received() -> IllegalState:
    return IllegalState("Only a message that was received can be acknowledged, given back or renewed.")
