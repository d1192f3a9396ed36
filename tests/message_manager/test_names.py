"""Who has a name: the first who assigns it, until it is removed; and it is remembered."""

from __future__ import annotations

from random import Random

import pytest
from tests.message_manager.dialogue import dump
from tests.message_manager.stage import CM1, CM2, Stage

from tocsin.cluster.commands import Administer
from tocsin.message_manager import names
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.errors import InvalidDestination, ProtocolError, ResourceExhausted


def assign(stage: Stage, name: str, group: int = 2, kind: int = 1, origin: str = CM1) -> dict[str, int]:
    return stage.ask(origin, "name.assign", name=name, kind=kind, group=group)


def test_the_first_who_assigns_a_name_decides() -> None:
    stage = Stage()
    assert stage.ask(CM1, "name.find", name="orders") == {"group": 0}
    first = assign(stage, "orders", group=2, kind=1)
    assert first == {"group": 2, "incarnation": 1, "kind": 1}
    assert assign(stage, "orders", group=3, kind=2, origin=CM2) == first
    assert stage.ask(CM2, "name.find", name="orders") == first


def test_a_name_that_is_given_out_again_has_a_higher_incarnation() -> None:
    stage = Stage()
    former = assign(stage, "orders")["incarnation"]
    assign(stage, "other")
    assert stage.ask(CM1, "name.remove", name="orders", incarnation=former) == {"removed": True}
    assert stage.ask(CM1, "name.find", name="orders") == {"group": 0}
    assert assign(stage, "orders", group=5) == {"group": 5, "incarnation": 3, "kind": 1}
    # Who wanted to remove the former one comes too late, and takes nothing away.
    assert stage.ask(CM1, "name.remove", name="orders", incarnation=former) == {"removed": False}
    assert stage.ask(CM1, "name.find", name="orders")["group"] == 5


def test_those_who_remember_a_name_are_told_when_it_changes() -> None:
    stage = Stage()
    assign(stage, "orders")
    assert stage.manager.take_name_changes() == ["orders"]
    assign(stage, "orders")
    stage.ask(CM1, "name.find", name="orders")
    stage.ask(CM1, "name.remove", name="orders", incarnation=7)
    assert stage.manager.take_name_changes() == []
    stage.ask(CM1, "name.remove", name="orders", incarnation=1)
    assert stage.manager.take_name_changes() == ["orders"]


def test_no_answer_tells_what_might_still_be_lost() -> None:
    stage = Stage()
    stage.workers.slow = True
    fields = {"name": "orders", "kind": 1, "group": 2}
    assert stage.tell(CM1, Administer(1, "name.assign", fields)) == []
    assert stage.tell(CM2, Administer(2, "name.find", {"name": "orders"})) == []
    stage.workers.slow = False
    stage.workers.catch_up()
    stage.settle()
    assert len(stage.replies[CM1]) == len(stage.replies[CM2]) == 1


@pytest.mark.parametrize("snapshot", [False, True])
def test_names_survive(snapshot: bool) -> None:
    stage = Stage()
    assign(stage, "orders")
    removed = assign(stage, "gone")["incarnation"]
    if snapshot:
        stage.snapshot()
    stage.ask(CM1, "name.remove", name="gone", incarnation=removed)
    assign(stage, "news", kind=2, group=3)
    assign(stage, "größe", group=65_535)
    before = dump(stage.manager)
    again = stage.crash()
    assert dump(again.manager) == before
    assert state_hash(again.manager.directory) == state_hash(stage.manager.directory)
    assert again.ask(CM1, "name.find", name="news") == {"group": 3, "incarnation": 3, "kind": 2}
    assert assign(again, "gone")["incarnation"] == 5
    again.snapshot()
    assert dump(again.crash().manager) == dump(again.manager)


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("name.find", {}),
        ("name.assign", {"name": "orders", "kind": 1}),
        ("name.assign", {"name": "orders", "kind": 9, "group": 1}),
        ("name.assign", {"name": "orders", "kind": 1, "group": 0}),
        ("name.assign", {"name": "orders", "kind": 1, "group": 1 << 16}),
        ("name.remove", {"name": "orders", "incarnation": "1"}),
    ],
)
def test_a_request_that_lacks_something(operation: str, fields: dict[str, object]) -> None:
    with pytest.raises(ProtocolError):
        Stage().ask(CM1, operation, **fields)


def test_a_bad_name_is_not_given_to_anybody() -> None:
    with pytest.raises(InvalidDestination, match="white space"):
        assign(Stage(), "two words")


def test_the_directory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "NAMES_MAX", 2)
    stage = Stage()
    assign(stage, "a")
    assign(stage, "b")
    with pytest.raises(ResourceExhausted):
        assign(stage, "c")
    assert assign(stage, "a")["incarnation"] == 1


@pytest.mark.parametrize("seed", range(6))
def test_a_random_life_of_names(seed: int) -> None:
    """Against a plain dictionary; incarnations only ever rise, and a restart changes nothing."""
    random = Random(seed)
    stage = Stage()
    known: dict[str, tuple[int, int]] = {}
    highest = 0
    for _ in range(60):
        name = random.choice("abcd")
        if random.random() < 0.6:
            group = random.randrange(1, 4)
            found = assign(stage, name, group)
            if name not in known:
                assert found["incarnation"] > highest
                highest = found["incarnation"]
                known[name] = (group, highest)
        elif name in known:
            stale = random.random() < 0.3
            incarnation = known[name][1] + stale
            assert stage.ask(CM1, "name.remove", name=name, incarnation=incarnation) == {"removed": not stale}
            if not stale:
                del known[name]
        if random.random() < 0.1:
            stage.snapshot()
        if random.random() < 0.1:
            stage = stage.crash()
        for each in "abcd":
            found = stage.ask(CM2, "name.find", name=each)
            assert (found["group"], found.get("incarnation", 0)) == known.get(each, (0, 0))
