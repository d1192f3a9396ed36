"""The bytes of the commands from client managers to message managers, little-endian.

Each command is u8 type and its body. `id` is 16 bytes, `text` u16 length and UTF-8 (length 0xFFFF: there is none),
`map` u32 length and a map of tocsin.model.values, `destination` u8 kind, u8 flag (1: temporary) and text name:

    1   OpenProducer     u64 request, id session, u32 producer, id connection, u32 epoch, u64 incarnation,
                         u64 since, u64 confirmed, destination, text user
    2   Publish          id session, u32 producer, u64 destination, u32 block length, text client id, block
    3   CloseProducer    id session, u64 destination
    4   OpenConsumer     u64 request, id session, u32 consumer, id connection, u32 epoch, u64 incarnation,
                         i64 messages, i64 bytes, u8 flags (1 no-local, 2 durable, 4 shared,
                         8 start follows, 16 held follows), destination, text client id, text mode,
                         text selector, text subscription, text user, [map start],
                         [u32 count, then as often: u64 first, u64 end]
    5   CloseConsumer    u64 request, id session, u32 consumer
    6   GrantCredit      id session, u32 consumer, u64 messages, u64 bytes
    7   SettleMessages   id session, u32 consumer, u32 length and the payload of a SETTLE frame (tocsin.wire.frames)
    8   PauseSession     id session, u32 epoch
    9   CloseSession     u64 request, id session, u8 counted, u32 epoch
    10  CloseConnection  id connection, u64 request
    11  Administer       u64 request, text operation, map fields

Blocks are not copied: they leave as buffers of their own, and come back as windows into the message. A member
trusts that the client manager has checked a block's inside; that its header can be read is made sure here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tocsin.cluster.commands import (
    Administer,
    CloseConnection,
    CloseConsumer,
    CloseProducer,
    CloseSession,
    Command,
    GrantCredit,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Publish,
    SettleMessages,
)
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.batch import Block
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import MessageFormatError, NewerFormat, ProtocolError
from tocsin.model.identity import DestinationId
from tocsin.model.limits import BLOCK_BYTES_MAX, BUS_MESSAGE_BYTES_MAX, HELD_RANGES_MAX
from tocsin.model.values import decode_fields, encode_fields
from tocsin.wire import frames

_OPEN_PRODUCER = struct.Struct("<Q16sI16sIQQQ")
_PUBLISH = struct.Struct("<16sIQI")
_CLOSE_PRODUCER = struct.Struct("<16sQ")
_OPEN_CONSUMER = struct.Struct("<Q16sI16sIQqqB")
_CLOSE_CONSUMER = struct.Struct("<Q16sI")
_CREDIT = struct.Struct("<16sIQQ")
_SETTLE = struct.Struct("<16sII")
_PAUSE = struct.Struct("<16sI")
_CLOSE_SESSION = struct.Struct("<Q16s?I")
_CLOSE_CONNECTION = struct.Struct("<16sQ")
_SPAN = struct.Struct("<QQ")
_NO_LOCAL, _DURABLE, _SHARED, _START, _HELD = 1, 2, 4, 8, 16
_KINDS: dict[int, Kind] = {int(kind): kind for kind in Kind}


def pack_map(packer: Packer, fields: dict[str, Any]) -> None:
    packer.sized((encode_fields(fields),))


def unpack_map(unpacker: Unpacker) -> dict[str, Any]:
    try:
        return decode_fields(unpacker.view(unpacker.u32()))
    except MessageFormatError as error:
        raise ProtocolError(f"A map between managers is malformed: {error}") from error


def _pack_destination(packer: Packer, destination: Destination) -> None:
    packer.u8(destination.kind)
    packer.u8(destination.temporary)
    packer.text(destination.name)


def _unpack_destination(unpacker: Unpacker) -> Destination:
    kind, temporary, name = _KINDS.get(unpacker.u8()), unpacker.flag(), unpacker.text()
    if kind is None:
        raise ProtocolError(f"A command names {name!r}, which is neither a queue nor a topic.")
    return Destination(kind, name, temporary)


def _pack_open_producer(packer: Packer, command: OpenProducer) -> None:
    packer.record(
        _OPEN_PRODUCER, command.request, command.session, command.producer, command.connection, command.epoch,
        command.incarnation, command.since, command.confirmed,
    )  # fmt: skip
    _pack_destination(packer, command.destination)
    packer.text(command.user)


def _unpack_open_producer(unpacker: Unpacker) -> OpenProducer:
    request, session, producer, connection, epoch, incarnation, since, confirmed = unpacker.record(_OPEN_PRODUCER)
    destination, user = _unpack_destination(unpacker), unpacker.optional_text()
    return OpenProducer(
        request, session, producer, destination, connection, epoch, incarnation, since, confirmed, user
    )  # fmt: skip


def _pack_publish(packer: Packer, command: Publish) -> None:
    block = command.block.data
    packer.record(_PUBLISH, command.session, command.producer, command.destination, len(block))
    packer.text(command.client_id)
    packer.fixed(block)


def _unpack_publish(unpacker: Unpacker) -> Publish:
    session, producer, destination, length = unpacker.record(_PUBLISH)
    client_id = unpacker.optional_text()
    if length > BLOCK_BYTES_MAX:
        raise ProtocolError(f"A batch between managers has {length} bytes; {BLOCK_BYTES_MAX} is the most.")
    try:
        block = Block(unpacker.view(length))
    except (MessageFormatError, NewerFormat) as error:
        raise ProtocolError(f"A batch between managers is malformed: {error}") from error
    return Publish(session, producer, destination, block, client_id)


def _pack_close_producer(packer: Packer, command: CloseProducer) -> None:
    packer.record(_CLOSE_PRODUCER, command.session, command.destination)


def _unpack_close_producer(unpacker: Unpacker) -> CloseProducer:
    session, destination = unpacker.record(_CLOSE_PRODUCER)
    return CloseProducer(session, DestinationId(destination))


def _pack_open_consumer(packer: Packer, command: OpenConsumer) -> None:
    held, start = command.held, command.start
    flags = _NO_LOCAL * command.no_local | _DURABLE * command.durable | _SHARED * command.shared
    flags |= _START * (start is not None) | _HELD * (held is not None)
    packer.record(
        _OPEN_CONSUMER, command.request, command.session, command.consumer, command.connection, command.epoch,
        command.incarnation, command.messages, command.bytes, flags,
    )  # fmt: skip
    _pack_destination(packer, command.destination)
    for text in (command.client_id, command.mode, command.selector, command.subscription, command.user):
        packer.text(text)
    if start is not None:
        pack_map(packer, start)
    if held is not None:
        packer.u32(len(held))
        packer.fixed(struct.pack(f"<{2 * len(held)}Q", *(number for each in held for number in each)))


def _unpack_open_consumer(unpacker: Unpacker) -> OpenConsumer:
    request, session, consumer, connection, epoch, incarnation, messages, size, flags = unpacker.record(_OPEN_CONSUMER)
    if flags >= 2 * _HELD:
        raise ProtocolError(f"A command to open a consumer has the unknown flags {flags}.")
    destination = _unpack_destination(unpacker)
    client_id, mode = unpacker.optional_text(), unpacker.text()
    selector, subscription, user = unpacker.optional_text(), unpacker.optional_text(), unpacker.optional_text()
    start = unpack_map(unpacker) if flags & _START else None
    held = None
    if flags & _HELD:
        count = unpacker.u32()
        if count > HELD_RANGES_MAX:
            raise ProtocolError(f"A consumer resumes with {count} ranges; {HELD_RANGES_MAX} is the most.")
        held = [(first, end) for first, end in _SPAN.iter_unpack(unpacker.view(count * _SPAN.size))]
    return OpenConsumer(
        request, session, consumer, destination, connection, client_id, mode, selector, bool(flags & _NO_LOCAL),
        subscription, bool(flags & _DURABLE), bool(flags & _SHARED), start, messages, size, held,
        epoch, incarnation, user,
    )  # fmt: skip


def _pack_close_consumer(packer: Packer, command: CloseConsumer) -> None:
    packer.record(_CLOSE_CONSUMER, command.request, *command.key)


def _unpack_close_consumer(unpacker: Unpacker) -> CloseConsumer:
    request, session, consumer = unpacker.record(_CLOSE_CONSUMER)
    return CloseConsumer(request, (session, consumer))


def _pack_credit(packer: Packer, command: GrantCredit) -> None:
    packer.record(_CREDIT, *command.key, command.messages, command.bytes)


def _unpack_credit(unpacker: Unpacker) -> GrantCredit:
    session, consumer, messages, size = unpacker.record(_CREDIT)
    return GrantCredit((session, consumer), messages, size)


def _pack_settle(packer: Packer, command: SettleMessages) -> None:
    payload = frames.write_settle(0, command.settle)[frames.HEADER.size :]
    packer.record(_SETTLE, *command.key, len(payload))
    packer.fixed(payload)


def _unpack_settle(unpacker: Unpacker) -> SettleMessages:
    session, consumer, length = unpacker.record(_SETTLE)
    if length > BUS_MESSAGE_BYTES_MAX:
        raise ProtocolError(f"A settlement between managers has {length} bytes.")
    return SettleMessages((session, consumer), frames.read_settle(unpacker.view(length)))


def _pack_pause(packer: Packer, command: PauseSession) -> None:
    packer.record(_PAUSE, command.session, command.epoch)


def _unpack_pause(unpacker: Unpacker) -> PauseSession:
    return PauseSession(*unpacker.record(_PAUSE))


def _pack_close_session(packer: Packer, command: CloseSession) -> None:
    packer.record(_CLOSE_SESSION, command.request, command.session, command.counted, command.epoch)


def _unpack_close_session(unpacker: Unpacker) -> CloseSession:
    return CloseSession(*unpacker.record(_CLOSE_SESSION))


def _pack_close_connection(packer: Packer, command: CloseConnection) -> None:
    packer.record(_CLOSE_CONNECTION, command.connection, command.request)


def _unpack_close_connection(unpacker: Unpacker) -> CloseConnection:
    return CloseConnection(*unpacker.record(_CLOSE_CONNECTION))


def _pack_administer(packer: Packer, command: Administer) -> None:
    packer.u64(command.request)
    packer.text(command.operation)
    pack_map(packer, command.fields)


def _unpack_administer(unpacker: Unpacker) -> Administer:
    return Administer(unpacker.u64(), unpacker.text(), unpack_map(unpacker))


_CODECS: dict[int, tuple[type, Callable[..., None], Callable[[Unpacker], Command]]] = {
    1: (OpenProducer, _pack_open_producer, _unpack_open_producer),
    2: (Publish, _pack_publish, _unpack_publish),
    3: (CloseProducer, _pack_close_producer, _unpack_close_producer),
    4: (OpenConsumer, _pack_open_consumer, _unpack_open_consumer),
    5: (CloseConsumer, _pack_close_consumer, _unpack_close_consumer),
    6: (GrantCredit, _pack_credit, _unpack_credit),
    7: (SettleMessages, _pack_settle, _unpack_settle),
    8: (PauseSession, _pack_pause, _unpack_pause),
    9: (CloseSession, _pack_close_session, _unpack_close_session),
    10: (CloseConnection, _pack_close_connection, _unpack_close_connection),
    11: (Administer, _pack_administer, _unpack_administer),
}
_TYPES = {codec[0]: (bytes((number,)), codec[1]) for number, codec in _CODECS.items()}


def pack_command(packer: Packer, command: Command) -> None:
    number, pack = _TYPES[type(command)]
    packer.fixed(number)
    pack(packer, command)


def unpack_command(unpacker: Unpacker) -> Command:
    """Raises ProtocolError for anything that `pack_command` would not have made."""
    number = unpacker.u8()
    codec = _CODECS.get(number)
    if codec is None:
        raise ProtocolError(f"A command has the unknown type {number}.")
    return codec[2](unpacker)
