"""The one error tree.

TocsinError
├── IllegalState                  an operation at the wrong time or on a closed object
│   └── NotAcknowledged           messages that were handed out have gone to others: they are delivered again
├── InvalidClientId               client id in use, malformed, or set too late
├── InvalidDestination            unknown kind, bad or reserved name, destination gone
│   └── StaleName                 the name means a newer destination now: look it up again
├── InvalidSelector               selector syntax, with the position
├── SecurityFailure               login refused or action not allowed
│   ├── AuthenticationFailed
│   └── AccessDenied
├── MessageFormatError            a value or body of a type that does not fit
├── MessageEOF                    a stream or bytes body has no more to read
├── MessageNotReadable            body is write-only right now
├── MessageNotWriteable           received body or properties are read-only until cleared
├── MessageTooLarge               over the largest message, which the text names
├── ResourceExhausted             a limit was reached; it may pass later
│   ├── DestinationBlocked        flow control holds this producer back
│   ├── StorageFull               the disk is full: publishing is refused, consuming goes on
│   └── StorageDegraded           fewer copies can be made than the destination wants: publish again later
├── DataLost                      messages that a reader asked for are gone: retention has removed them
│   └── DataDamaged               or they are damaged on the disk, and no other copy was found
├── Fenced                        a newer run of the same application has taken over
├── ProducerExpired               the producer was silent for so long that it needs a new id
├── TransactionInProgress
├── TransactionRolledBack
├── TimedOut                      the answer did not come in the time given; the outcome may be unknown
├── ConnectionFailed              no server could be reached, or it went away for good
├── ProtocolError                 the peer broke the protocol: its fault, or a version mismatch
├── InternalError                 a fault of the server's own, contained: what was asked for ends, the server goes on
├── PipelineFailed                a Spark query ended with an error, whose cause the text names
└── EnvironmentFailure            what a server finds around itself
    ├── ArchiveDamaged            a Parquet archive contradicts its own log
    ├── BrokenInvariant           what a server knows may differ from its journal: only a start can tell
    ├── ConfigError
    ├── DataDirectoryInUse
    ├── JournalDamaged
    ├── NewerFormat
    ├── PortInUse
    └── StorageFailed

Every error that crosses the wire does so by its `code`; `from_code` is the way back.
"""

from __future__ import annotations

from tocsin.model.limits import ERROR_TEXT_BYTES_MAX


class TocsinError(Exception):
    """Root of all errors that tocsin raises on purpose; its text is a sentence the user can act on."""

    code = 1


class IllegalState(TocsinError):
    code = 2


class NotAcknowledged(IllegalState):
    code = 44


class InvalidClientId(TocsinError):
    code = 3


class InvalidDestination(TocsinError):
    code = 4


class StaleName(InvalidDestination):
    code = 30


class InvalidSelector(TocsinError):
    code = 5


class SecurityFailure(TocsinError):
    code = 6


class AuthenticationFailed(SecurityFailure):
    code = 7


class AccessDenied(SecurityFailure):
    code = 8


class MessageFormatError(TocsinError):
    code = 9


class MessageEOF(TocsinError):
    code = 10


class MessageNotReadable(TocsinError):
    code = 11


class MessageNotWriteable(TocsinError):
    code = 12


class MessageTooLarge(TocsinError):
    code = 13


class ResourceExhausted(TocsinError):
    code = 14


class DestinationBlocked(ResourceExhausted):
    code = 15


class StorageFull(ResourceExhausted):
    code = 16


class StorageDegraded(ResourceExhausted):
    code = 31


class DataLost(TocsinError):
    code = 32


class DataDamaged(DataLost):
    code = 46


class Fenced(TocsinError):
    code = 45


class ProducerExpired(TocsinError):
    code = 17


class TransactionInProgress(TocsinError):
    code = 18


class TransactionRolledBack(TocsinError):
    code = 19


class TimedOut(TocsinError, TimeoutError):
    code = 20


class ConnectionFailed(TocsinError, ConnectionError):
    code = 21


class ProtocolError(TocsinError):
    code = 22


class InternalError(TocsinError):
    code = 47


class PipelineFailed(TocsinError):
    code = 40


class EnvironmentFailure(TocsinError):
    code = 23


class ConfigError(EnvironmentFailure):
    code = 24


class ArchiveDamaged(EnvironmentFailure):
    code = 36


class BrokenInvariant(EnvironmentFailure):
    code = 48


class DataDirectoryInUse(EnvironmentFailure):
    code = 25


class JournalDamaged(EnvironmentFailure):
    code = 26


class NewerFormat(EnvironmentFailure):
    code = 27


class PortInUse(EnvironmentFailure):
    code = 28


class StorageFailed(EnvironmentFailure):
    code = 29


def _tree(root: type[TocsinError]) -> list[type[TocsinError]]:
    return [root] + [error for child in root.__subclasses__() for error in _tree(child)]


_BY_CODE: dict[int, type[TocsinError]] = {error.code: error for error in _tree(TocsinError)}
assert len(_BY_CODE) == len(_tree(TocsinError)), "two errors share a wire code"


def from_code(code: int, message: str) -> TocsinError:
    """The error that a peer sent; a code of a newer peer becomes the root error, with its text."""
    return _BY_CODE.get(code, TocsinError)(message)


def text_of(error: TocsinError) -> str:
    """The error's text as it crosses the wire: it can be written as UTF-8, and what it quotes does not make it long."""
    text = str(error)
    if len(text) > ERROR_TEXT_BYTES_MAX // 4:
        return text.encode("utf-8", "replace")[:ERROR_TEXT_BYTES_MAX].decode("utf-8", "ignore")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
