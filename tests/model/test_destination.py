from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.destination import (
    TEMPORARY_PREFIX,
    WELL_KNOWN,
    Destination,
    Kind,
    check_creatable,
    check_name,
    kind_of,
    parse_destination,
)
from tocsin.model.errors import InvalidDestination
from tocsin.model.limits import DESTINATION_NAME_BYTES_MAX

FORBIDDEN = " \t\r\n\x00\x1f\x7f\x80\x85\x9f\u00a0\u2028\u3000\"'\\*?#>\ud800\udfff"


@pytest.mark.parametrize(
    "name", ["orders", "a", "a.b/c-d_e:f@g!", "Zoë", "注文", "🔔", "_ADMIN", "x" * DESTINATION_NAME_BYTES_MAX]
)
def test_good_names_pass_as_they_are(name: str) -> None:
    assert check_name(name) is name
    name.encode()


@pytest.mark.parametrize("character", FORBIDDEN)
@pytest.mark.parametrize("form", ["{}", "{}a", "a{}", "a{}b"])
def test_forbidden_characters_are_refused_anywhere(character: str, form: str) -> None:
    with pytest.raises(InvalidDestination, match="contains"):
        check_name(form.format(character))


def test_the_length_counts_bytes() -> None:
    with pytest.raises(InvalidDestination, match="has 256 bytes"):
        check_name("x" * (DESTINATION_NAME_BYTES_MAX + 1))
    assert check_name("é" * (DESTINATION_NAME_BYTES_MAX // 2))
    with pytest.raises(InvalidDestination, match="bytes"):
        check_name("é" * (DESTINATION_NAME_BYTES_MAX // 2 + 1))


def test_a_name_is_not_empty_and_the_text_says_whose() -> None:
    with pytest.raises(InvalidDestination, match="A subscription name must not be empty"):
        check_name("", "subscription")


@given(st.text(max_size=300))
def test_every_name_that_passes_can_travel(name: str) -> None:
    try:
        check_name(name)
    except InvalidDestination:
        return
    assert 0 < len(name.encode()) <= DESTINATION_NAME_BYTES_MAX
    assert not set(name) & set(FORBIDDEN)
    for kind in Kind:
        destination = Destination(kind, name, name.startswith(TEMPORARY_PREFIX))
        assert parse_destination(str(destination)) == destination


@pytest.mark.parametrize("name", [*WELL_KNOWN, TEMPORARY_PREFIX + "1", "_", "_anything"])
def test_names_of_the_system_can_be_used_and_not_created(name: str) -> None:
    assert check_name(name) == name
    with pytest.raises(InvalidDestination, match="belong to the system"):
        check_creatable(name)


def test_other_names_can_be_created() -> None:
    assert check_creatable("orders_") == "orders_"
    with pytest.raises(InvalidDestination):
        check_creatable("two words")


def test_kinds_have_words_and_come_back_from_them() -> None:
    assert [kind.word for kind in Kind] == ["queue", "topic"]
    for kind in Kind:
        assert kind_of(kind.word) is kind
        assert kind_of(kind.word.upper()) is kind


@pytest.mark.parametrize("word", ["", "queues", "1", "queue ", "QUEUE.TOPIC"])
def test_other_words_name_no_kind(word: str) -> None:
    with pytest.raises(InvalidDestination, match="use 'queue' or 'topic'"):
        kind_of(word)


@pytest.mark.parametrize("text", ["", "orders", "queue:", ":orders", "lane:orders", "queue:two words", "queue;orders"])
def test_a_text_that_names_no_destination_is_refused(text: str) -> None:
    with pytest.raises(InvalidDestination):
        parse_destination(text)


def test_a_name_may_hold_colons_and_temporary_ones_are_told_by_it() -> None:
    assert parse_destination("topic:a:b") == Destination(Kind.TOPIC, "a:b")
    assert parse_destination(f"queue:{TEMPORARY_PREFIX}1.1").temporary
    assert str(Destination(Kind.QUEUE, "orders")) == "queue:orders"
