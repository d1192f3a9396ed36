"""Section C, J25 to J29: application properties and the reserved ones."""

from __future__ import annotations

from typing import Any

import pytest
from tests.jms.names import Named
from tests.jms.waiting import PATIENCE, take

import tocsin
from tocsin import errors
from tocsin.types import Byte, Double, Float, Int, Long, Short

VALUES: dict[str, Any] = {
    "a_boolean": False,
    "a_byte": Byte(127),
    "a_short": Short(-32_768),
    "an_int": Int(2**31 - 1),
    "a_long": -(2**63),
    "a_float": Float(0.25),
    "a_double": -1.5e-300,
    "a_string": "\N{GREEK SMALL LETTER OMEGA}",
}
WANTED: dict[str, type] = {
    "boolean": bool,
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": Long,
    "float": Float,
    "double": Double,
    "string": str,
}
READABLE = {
    "a_boolean": "boolean string",
    "a_byte": "byte short int long string",
    "a_short": "short int long string",
    "an_int": "int long string",
    "a_long": "long string",
    "a_float": "float double string",
    "a_double": "double string",
}
"""Table 3-2 row by row, without the string row: whether a string can be read as a number depends on its text."""
TEXTS = {
    "a_boolean": "false",
    "a_byte": "127",
    "a_short": "-32768",
    "an_int": "2147483647",
    "a_long": "-9223372036854775808",
    "a_float": "0.25",
    "a_double": "-1.5e-300",
}

# J25


def test_j25_eight_property_types_travel(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Boolean, byte, short, int, long, float, double and string arrive as what they were, read in object form."""
    session.producer(queue).send("text", properties=VALUES)

    properties = take(session.consumer(queue)).properties

    for name, value in VALUES.items():
        assert properties[name] == value
        assert type(properties[name]) is type(value), name


@pytest.mark.parametrize("stored", READABLE)
def test_j25_conversion_table(session: tocsin.Session, queue: tocsin.Destination, stored: str) -> None:
    """A property can be read as the types of its row in table 3-2, and as no other."""
    session.producer(queue).send("text", properties=VALUES)
    properties = take(session.consumer(queue)).properties

    for name, wanted in WANTED.items():
        if name in READABLE[stored].split():
            assert properties.get_as(stored, wanted) == (TEXTS[stored] if wanted is str else VALUES[stored])
        else:
            with pytest.raises(errors.MessageFormatError):
                properties.get_as(stored, wanted)


def test_j25_strings_convert_to_what_they_spell(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A string property can be read as any number or boolean that it spells; other text is refused."""
    sent = {"flag": "true", "small": "-7", "large": "5000000000", "real": "2.5", "word": "seven"}
    session.producer(queue).send("text", properties=sent)
    properties = take(session.consumer(queue)).properties

    assert properties.get_as("flag", bool) is True
    assert properties.get_as("word", bool) is False
    for wanted in (Byte, Short, Int, Long):
        assert properties.get_as("small", wanted) == -7
    assert properties.get_as("large", Long) == 5_000_000_000
    for wanted in (Byte, Short, Int):
        with pytest.raises(errors.MessageFormatError):
            properties.get_as("large", wanted)
    for real in (Float, Double):
        assert properties.get_as("real", real) == 2.5
    for number in (Byte, Short, Int, Long, Float, Double):
        with pytest.raises(errors.MessageFormatError):
            properties.get_as("word", number)


def test_j25_an_unset_property_is_null(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Asking for a property that was not set gives null, in object form and as a string; also in a shared batch."""
    producer = session.producer(queue)
    producer.send_many([session.message("with", properties={"region": "EU"}), session.message("without")])
    consumer = session.consumer(queue)
    with_region, without = take(consumer), take(consumer)

    assert with_region.properties.get("region") == "EU"
    assert "region" not in without.properties
    assert without.properties.get("region") is None
    assert without.properties.get_as("region", str) is None
    assert list(without.properties) == [name for name in without.properties if name.startswith("JMSX")]


def test_j25_null_values_are_allowed(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A property set to null reads as null."""
    session.producer(queue).send("text", properties={"nothing": None, "something": 1})

    properties = take(session.consumer(queue)).properties

    assert properties.get("nothing") is None
    assert properties["something"] == 1


@pytest.mark.parametrize("value", [b"bytes", ["list"], {"a": "dict"}, object(), 2**63])
def test_j25_other_value_types_are_refused(session: tocsin.Session, value: object) -> None:
    """Bytes, collections, other objects and integers beyond a long are refused when they are set."""
    message = session.message("text")

    with pytest.raises(errors.MessageFormatError):
        message.properties["name"] = value


@pytest.mark.parametrize("name", ["region", "_private", "$cost", "a1", "gr\u00f6\u00dfe", "Null_", "x" * 100])
def test_j25_names_are_selector_identifiers(session: tocsin.Session, queue: tocsin.Destination, name: str) -> None:
    """A name that a selector can use as an identifier is accepted, travels, and selects."""
    session.producer(queue).send("text", properties={name: 1})

    message = take(session.consumer(queue, f"{name} = 1"))

    assert message.properties[name] == 1


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1st",
        "a-b",
        "a b",
        "a.b",
        "NULL",
        "true",
        "False",
        "NOT",
        "and",
        "OR",
        "between",
        "LIKE",
        "in",
        "IS",
        "escape",
    ],
)
def test_j25_names_that_no_selector_could_use_are_refused(session: tocsin.Session, name: str) -> None:
    """Empty names, names with other characters and the reserved words in any case are refused when set."""
    message = session.message("text")

    with pytest.raises(errors.TocsinError):
        message.properties[name] = 1


def test_j25_properties_are_copied_in_and_out(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Changing the mapping given to send, or a copy of what was read, changes neither message."""
    given = {"step": 1}
    message = session.message("text", properties=given)
    given["step"] = 2
    producer = session.producer(queue)
    producer.send(message)
    producer.send_nowait("text", properties=given)
    given["step"] = 3
    producer.flush(PATIENCE)
    consumer = session.consumer(queue)
    first, second = take(consumer), take(consumer)

    copied = dict(first.properties)
    copied["step"] = 9

    assert message.properties["step"] == 1
    assert (first.properties["step"], second.properties["step"]) == (1, 2)


# J26


def test_j26_delivery_count_starts_at_one_and_counts(
    client_session: tocsin.Session, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """JMSXDeliveryCount is 1 at first and one more at each redelivery, and at least 2 whenever redelivered is set."""
    session.producer(queue).send("text")
    consumer = client_session.consumer(queue)
    counts = []
    for _ in range(4):
        message = take(consumer)
        counts.append(message.properties["JMSXDeliveryCount"])
        assert message.delivery_count == message.properties["JMSXDeliveryCount"]
        assert message.redelivered == (message.delivery_count >= 2)
        client_session.recover()

    assert counts == [1, 2, 3, 4]


def test_j26_delivery_count_is_an_int_that_the_sender_cannot_set(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """The server's count is what the receiver reads; an application that tries to set it is refused."""
    message = session.message("text")

    with pytest.raises(errors.TocsinError):
        message.properties["JMSXDeliveryCount"] = 5

    session.producer(queue).send(message)
    assert take(session.consumer(queue)).properties.get_as("JMSXDeliveryCount", Int) == 1


# J27


def test_j27_group_id_and_sequence_travel(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Set by the call or as properties JMSXGroupID and JMSXGroupSeq, they read the same either way."""
    producer, consumer = session.producer(queue), session.consumer(queue)
    producer.send("call", group_id="lot-7", group_sequence=3)
    producer.send("properties", properties={"JMSXGroupID": "lot-7", "JMSXGroupSeq": Int(4)})
    producer.send("neither")

    by_call, by_property, neither = (take(consumer) for _ in range(3))

    assert (by_call.group_id, by_call.group_sequence) == ("lot-7", 3)
    assert (by_property.group_id, by_property.group_sequence) == ("lot-7", 4)
    assert by_call.properties["JMSXGroupID"] == "lot-7"
    assert by_call.properties["JMSXGroupSeq"] == 3
    assert neither.group_id is None
    assert neither.properties.get("JMSXGroupID") is None


def test_j27_selectors_see_groups(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """JMSXGroupID and JMSXGroupSeq can be selected on."""
    producer = session.producer(queue)
    for number in range(4):
        producer.send(str(number), group_id="even" if number % 2 == 0 else "odd", group_sequence=number)

    assert [each.body for each in session.browser(queue, "JMSXGroupID = 'odd'")] == ["1", "3"]
    assert [each.body for each in session.browser(queue, "JMSXGroupSeq >= 2")] == ["2", "3"]


def test_j27_a_group_stays_with_one_consumer_in_order(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """While both consumers live, all messages of a group go to one of them, in order."""
    producer = session.producer(queue)
    with connection.session() as left_session, connection.session() as right_session:
        left, right = left_session.consumer(queue, prefetch=1), right_session.consumer(queue, prefetch=1)
        for number in range(12):
            producer.send(str(number), group_id=f"group {number % 3}", group_sequence=number // 3 + 1)
        seen: dict[str, dict[str | None, list[int | None]]] = {"left": {}, "right": {}}
        received = 0
        while received < 12:
            for side, consumer in (("left", left), ("right", right)):
                message = consumer.receive(timeout=0.05)
                if message is not None:
                    seen[side].setdefault(message.group_id, []).append(message.group_sequence)
                    received += 1

    assert set(seen["left"]).isdisjoint(seen["right"])
    assert {**seen["left"], **seen["right"]} == {f"group {number}": [1, 2, 3, 4] for number in range(3)}


# J28 and J29


def test_j29_metadata_lists_the_jmsx_properties(connection: tocsin.Connection) -> None:
    """The connection's metadata names the JMSX properties that are supported."""
    names = set(connection.metadata.jmsx_properties)

    assert {"JMSXDeliveryCount", "JMSXGroupID", "JMSXGroupSeq"} <= names
    assert all(name.startswith("JMSX") for name in names)


def test_j28_optional_jmsx_properties_are_not_claimed(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Of the optional JMSX properties none is claimed, and so none appears on a received message."""
    optional = {"JMSXUserID", "JMSXAppID", "JMSXProducerTXID", "JMSXConsumerTXID", "JMSXRcvTimestamp", "JMSXState"}
    session.producer(queue).send("text")

    properties = take(session.consumer(queue)).properties

    assert optional.isdisjoint(connection.metadata.jmsx_properties)
    assert optional.isdisjoint(properties)


@pytest.mark.parametrize("name", ["JMSXMine", "JMSXUserID", "JMSXDeliveryCount", "JMSMine", "JMSPriority"])
def test_j29_names_with_reserved_prefixes_are_refused(session: tocsin.Session, name: str) -> None:
    """Names that begin with JMS or JMSX belong to the standard: applications cannot set them, groups excepted."""
    message = session.message("text")

    with pytest.raises(errors.TocsinError, match="JMS"):
        message.properties[name] = 1


def test_j29_vendor_names_pass_through(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Names that begin with JMS_ belong to vendors: what one of them has set travels on, and can be selected."""
    session.producer(queue).send("text", properties={"JMS_acme_key": "k"})

    assert take(session.consumer(queue, "JMS_acme_key = 'k'")).properties["JMS_acme_key"] == "k"


def test_j29_reserved_prefixes_are_refused_in_a_send_too(
    session: tocsin.Session, queue: tocsin.Destination, named: Named
) -> None:
    """The same holds for properties given to send, and then nothing is sent."""
    producer = session.producer(queue)

    with pytest.raises(errors.TocsinError, match="JMSXMine"):
        producer.send("refused", properties={"JMSXMine": 1})

    producer.send("sent")
    assert take(session.consumer(queue)).body == "sent"
