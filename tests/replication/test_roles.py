"""The table of roles, and the diagram that is drawn from it."""

from __future__ import annotations

from pathlib import Path

from tocsin.replication.roles import TRANSITIONS, Role, Trigger, diagram

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "replication.md"


def test_the_document_shows_the_table() -> None:
    assert diagram() in DOCUMENT.read_text(), "put what tocsin.replication.roles.diagram() gives into the document"


def test_every_role_can_be_reached_and_left() -> None:
    reached = set(TRANSITIONS.values()) | {Role.FOLLOWER}
    assert reached == set(Role)
    assert {role for role, _ in TRANSITIONS} == set(Role) - {Role.STOPPED}
    assert {trigger for _, trigger in TRANSITIONS} == set(Trigger)


def test_a_later_epoch_makes_everybody_a_follower() -> None:
    for role in set(Role) - {Role.STOPPED}:
        assert TRANSITIONS[role, Trigger.HIGHER_EPOCH] is Role.FOLLOWER


def test_only_a_candidate_becomes_primary() -> None:
    assert [role for (role, _), after in TRANSITIONS.items() if after is Role.PRIMARY] == [Role.CANDIDATE]
