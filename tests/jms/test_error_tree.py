"""J94: the exceptions of JMS as errors of tocsin, each raised where the specification says it must be."""

from __future__ import annotations

import pytest
from tests.jms.names import Named
from tests.jms.waiting import take

import tocsin
from tocsin import errors
from tocsin.model.limits import SESSIONS_PER_CONNECTION_MAX

TAXONOMY = {
    "JMSException": errors.TocsinError,
    "IllegalStateException": errors.IllegalState,
    "InvalidClientIDException": errors.InvalidClientId,
    "InvalidDestinationException": errors.InvalidDestination,
    "InvalidSelectorException": errors.InvalidSelector,
    "JMSSecurityException": errors.SecurityFailure,
    "MessageEOFException": errors.MessageEOF,
    "MessageFormatException": errors.MessageFormatError,
    "MessageNotReadableException": errors.MessageNotReadable,
    "MessageNotWriteableException": errors.MessageNotWriteable,
    "ResourceAllocationException": errors.ResourceExhausted,
    "TransactionInProgressException": errors.TransactionInProgress,
    "TransactionRolledBackException": errors.TransactionRolledBack,
}


def test_j94_each_jms_exception_has_an_error_of_its_own() -> None:
    """Thirteen checked types, thirteen errors, all under one root, which is no error of Python's own."""
    assert len(set(TAXONOMY.values())) == 13
    for error in TAXONOMY.values():
        assert issubclass(error, errors.TocsinError)
        assert issubclass(error, Exception)
    # The unchecked twins exist in Java to spare callers a throws clause; Python has no such clause.
    siblings = [error for error in TAXONOMY.values() if error is not errors.TocsinError]
    for error in siblings:
        assert not any(issubclass(error, other) for other in siblings if other is not error)


def test_j94_errors_are_sentences_with_a_code(session: tocsin.Session) -> None:
    """An error tells what to do in a sentence, and has a number that stays the same over the wire."""
    with pytest.raises(errors.InvalidDestination) as caught:
        session.queue("two words")

    assert caught.value.code == errors.InvalidDestination.code
    assert len(str(caught.value).split()) > 3
    assert str(caught.value).endswith(".")


def test_j94_errors_of_the_server_arrive_as_what_they_are(
    connection: tocsin.Connection, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """What the server refuses raises the same class in the client, with the server's sentence."""
    with pytest.raises(errors.IllegalState) as caught:
        session.durable_consumer(topic, "audit")
    assert type(caught.value) is errors.IllegalState
    with pytest.raises(errors.InvalidDestination):
        connection.delete_destination(session.queue(named("never made")))


@pytest.mark.parametrize("name", ["", "two words", "wild*card", "x" * 300, "_mine"])
def test_j94_a_destination_the_server_does_not_understand_is_invalid_destination(
    session: tocsin.Session, name: str
) -> None:
    """Empty, malformed, overlong and reserved names."""
    with pytest.raises(errors.InvalidDestination):
        session.producer(session.queue(name)).send("text")


def test_j94_no_destination_is_invalid_destination(session: tocsin.Session) -> None:
    """Nothing where a destination belongs."""
    with pytest.raises(errors.InvalidDestination):
        session.producer().send("text")
    with pytest.raises(errors.InvalidDestination):
        session.consumer(None)  # type: ignore[arg-type]


def test_j94_acknowledging_at_the_wrong_time_is_illegal_state(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A message whose session is closed, or that was never received, cannot be acknowledged."""
    session.producer(queue).send("text")
    with connection.session(ack="client") as closing:
        message = take(closing.consumer(queue))

    with pytest.raises(errors.IllegalState):
        message.acknowledge()
    with pytest.raises(errors.IllegalState):
        session.message("text").acknowledge()


def test_j94_a_limit_that_is_reached_is_resource_exhausted(server: tocsin.Server) -> None:
    """A connection takes so many sessions and no more; the error names the limit, and the others go on."""
    with tocsin.connect(server.url) as connection:
        sessions = [connection.session() for _ in range(SESSIONS_PER_CONNECTION_MAX)]
        with pytest.raises(errors.ResourceExhausted, match=r"1,?024"):
            connection.session()

        sessions[0].close()
        connection.session()


def test_j94_reading_past_the_end_is_message_eof(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """The end of a stream was reached unexpectedly."""
    session.producer(queue).send([1])
    body = take(session.consumer(queue)).body
    body.read(int)

    with pytest.raises(errors.MessageEOF):
        body.read(int)


def test_j94_a_wrong_type_is_message_format(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A value of a type that no message can carry, or read as a type that it is not."""
    producer = session.producer(queue)
    with pytest.raises(errors.MessageFormatError):
        producer.send({"key": object()})
    with pytest.raises(errors.MessageFormatError):
        producer.send({7: "a key that is no string"})
    producer.send("text")
    with pytest.raises(errors.MessageFormatError):
        take(session.consumer(queue)).get_body(dict)


def test_j94_reading_a_stream_that_is_being_written_is_message_not_readable(session: tocsin.Session) -> None:
    """A stream body that was just made is for writing until it is reset."""
    message = session.message(tocsin.StreamBody())
    message.body.append("text")

    with pytest.raises(errors.MessageNotReadable):
        message.body.read(str)

    message.body.reset()
    assert message.body.read(str) == "text"


def test_j94_writing_to_a_received_message_is_message_not_writeable(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Until its body or its properties are cleared."""
    session.producer(queue).send("text")
    message = take(session.consumer(queue))

    with pytest.raises(errors.MessageNotWriteable):
        message.body = "other"
    with pytest.raises(errors.MessageNotWriteable):
        message.properties["name"] = 1


def test_j94_too_large_a_message_names_the_limit(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A message beyond the server's limit is refused before it is sent, and the session goes on."""
    producer = session.producer(queue)
    with pytest.raises(errors.MessageTooLarge, match=r"\d"):
        producer.send(b"x" * (9 * 1024 * 1024))

    producer.send("small")
    assert take(session.consumer(queue)).body == "small"


def test_j94_a_server_that_is_not_there_is_connection_failed() -> None:
    """Nobody listens at the address: ConnectionFailed, which is a ConnectionError of Python's too."""
    with pytest.raises(errors.ConnectionFailed) as caught:
        tocsin.connect("tocsin://127.0.0.1:1", connect_timeout=0.5)
    assert isinstance(caught.value, ConnectionError)


def test_j94_an_address_that_makes_no_sense_says_so() -> None:
    """A sentence about the address, not a traceback from a parser."""
    for url in ("localhost", "http://localhost", "tocsin://", "tocsin://localhost:port"):
        with pytest.raises(errors.TocsinError, match=r"\.$"):
            tocsin.connect(url, connect_timeout=0.5)
