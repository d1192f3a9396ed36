from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import get_args

from tocsin.cluster import commands
from tocsin.cluster.commands import Command, OpenConsumer, Reply
from tocsin.model.destination import parse_destination


def test_every_command_and_reply_is_a_slotted_dataclass() -> None:
    for kind in (*get_args(Command), *get_args(Reply)):
        assert is_dataclass(kind), kind
        assert hasattr(kind, "__slots__"), kind


def test_every_dataclass_here_is_a_command_or_a_reply() -> None:
    known = {*get_args(Command), *get_args(Reply)}
    made = {each for each in vars(commands).values() if isinstance(each, type) and is_dataclass(each)}
    assert {each for each in made if each.__module__ == commands.__name__} == known


def test_a_consumer_is_known_by_its_session_and_number() -> None:
    opened = OpenConsumer(1, b"s" * 16, 7, parse_destination("queue:orders"), b"c" * 16, None)
    assert opened.key == (b"s" * 16, 7)
    assert opened.held is None


def test_what_asks_for_an_answer_carries_the_number_of_the_request() -> None:
    asking = {kind.__name__ for kind in get_args(Command) if "request" in {each.name for each in fields(kind)}}
    assert asking == {"OpenProducer", "OpenConsumer", "CloseConsumer", "CloseSession", "CloseConnection", "Administer"}
