from __future__ import annotations

import pytest

from tocsin.bus import membership
from tocsin.bus.membership import Member, MemberChanged, Membership, MemberState, Reason

SUSPECT, DOWN = 3.0, 10.0


@pytest.fixture
def members() -> Membership:
    return Membership(1, SUSPECT, DOWN)


def salt_of(node: int, boot: int) -> int:
    return node * 100 + boot


def appear(members: Membership, node: int = 5, boot: int = 1, now: float = 0.0, salt: int = 0) -> Member:
    return members.appear(node, boot, salt or salt_of(node, boot), now)


def accepts(members: Membership, node: int, boot: int, salt: int = 0) -> bool:
    return members.accepts(node, boot, salt or salt_of(node, boot))


def up(members: Membership, node: int = 5, boot: int = 1, now: float = 0.0) -> Member:
    member = appear(members, node, boot, now)
    members.prove(member)
    assert members.hears_us(member, now) == changed(MemberState.UP, node=node, boot=boot)
    return member


def changed(state: MemberState, reason: Reason | None = None, node: int = 5, boot: int = 1) -> MemberChanged:
    return MemberChanged(1, node, boot, state, reason)


def test_who_is_heard_is_up_only_when_it_hears_us() -> None:
    members = Membership(1, SUSPECT, DOWN)
    member = appear(members)
    assert [member.there, members.is_claim(member), members.get(5)] == [False, True, None]
    assert members.prove(member) == []
    assert members.hears_us(member, 1.0) == changed(MemberState.UP)
    assert [member.there, members.is_claim(member), members.get(5)] == [True, False, member]
    assert members.hears_us(member, 2.0) is None


def test_silence_is_suspicious_and_then_the_end(members: Membership) -> None:
    member = up(members)
    assert members.tick(SUSPECT - 0.1) == []
    assert members.tick(SUSPECT) == [changed(MemberState.SUSPECTED)]
    assert [each.node for each in members.all() if each.there] == [5]
    assert members.tick(SUSPECT + 1) == []
    assert members.tick(DOWN) == [changed(MemberState.DOWN, Reason.SILENT)]
    assert not member.there
    assert members.tick(DOWN + 100) == []


def test_a_suspect_that_is_heard_again_is_trusted_again(members: Membership) -> None:
    member = up(members)
    members.tick(SUSPECT)
    assert members.heard(member, 4.0) == changed(MemberState.UP)
    assert members.tick(6.0) == []


def test_who_does_not_hear_us_any_more_is_down(members: Membership) -> None:
    member = up(members)
    for second in range(1, int(DOWN)):
        members.heard(member, float(second))
        assert members.tick(float(second)) == []
    members.heard(member, DOWN)
    assert members.tick(DOWN) == [changed(MemberState.DOWN, Reason.DEAF)]


def test_who_says_nothing_is_silent_and_not_deaf(members: Membership) -> None:
    member = up(members)
    members.heard(member, 5.0)
    members.tick(8.5)
    assert members.tick(DOWN) == [changed(MemberState.DOWN, Reason.SILENT)]


def test_who_was_down_needs_both_ways_again(members: Membership) -> None:
    member = up(members)
    members.tick(DOWN)
    assert members.heard(member, DOWN + 1) is None
    assert member.state is MemberState.HEARD
    assert members.hears_us(member, DOWN + 2) == changed(MemberState.UP)


def test_a_later_incarnation_ends_the_earlier_one_when_it_has_shown_that_it_hears_us(members: Membership) -> None:
    before = up(members, boot=4)
    later = appear(members, boot=6, now=1.0)
    assert before.there and members.get(5) is before and members.find(5, later.salt) is later
    assert members.prove(later) == [changed(MemberState.DOWN, Reason.RESTARTED, boot=4)]
    assert members.get(5) is later and members.find(5, before.salt) is None
    assert not accepts(members, 5, 5) and accepts(members, 5, 6) and accepts(members, 5, 7)


def test_a_copy_that_counts_its_starts_alike_is_refused_while_the_other_one_is_there(members: Membership) -> None:
    member = up(members, boot=4)
    assert not accepts(members, 5, 4, salt=999)
    members.left(member)
    assert accepts(members, 5, 4, salt=999) and not accepts(members, 5, 3)


def test_claims_are_few_named_and_forgotten(members: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "BUS_CLAIMS_PER_NODE", 2)
    first, second = appear(members, boot=1), appear(members, boot=2, now=0.5)
    third = appear(members, boot=3, now=1.0)
    assert [members.is_claim(each) for each in (first, second, third)] == [False, True, True]
    assert members.heard_lately(1.0) == [second.salt, third.salt]
    assert members.expire(DOWN + 0.5) and not members.expire(DOWN + 0.5)
    assert members.is_claim(third) and not members.is_claim(second)
    assert members.tick(100.0) == []


def test_who_is_proven_leaves_no_other_claim_of_its_node(members: Membership) -> None:
    recorded, real, other = appear(members, boot=9), appear(members, boot=2), appear(members, node=6)
    members.prove(real)
    assert members.get(5) is real and not members.is_claim(recorded) and members.is_claim(other)


def test_who_leaves_is_down_at_once(members: Membership) -> None:
    member = up(members)
    assert members.left(member) == changed(MemberState.DOWN, Reason.LEFT)
    assert members.left(member) is None


def test_a_heartbeat_names_whom_we_hear(members: Membership) -> None:
    up(members, node=5, boot=1)
    appear(members, node=6, boot=9, now=2.0)
    assert members.heard_lately(2.5) == [salt_of(5, 1), salt_of(6, 9)]
    assert members.heard_lately(3.0) == [salt_of(6, 9)]


def test_deadlines_are_when_silence_means_something(members: Membership) -> None:
    assert members.next_deadline(0.0) == DOWN
    member = up(members)
    assert members.next_deadline(0.0) == SUSPECT
    members.tick(SUSPECT)
    assert members.next_deadline(SUSPECT) == DOWN
    members.heard(member, 5.0)
    assert members.next_deadline(5.0) == 8.0
    members.heard(member, 9.0)
    assert members.next_deadline(9.0) == DOWN


def test_their_number_is_bounded_and_the_longest_gone_makes_room(
    members: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "BUS_MEMBERS_MAX", 3)
    for node in (1, 2, 3):
        up(members, node=node, now=float(node))
    assert not accepts(members, 4, 1) and accepts(members, 2, 1)
    members.tick(12.5)
    assert accepts(members, 4, 1)
    members.prove(appear(members, 4, 1, 13.0))
    assert members.get(1) is None
    assert {member.node for member in members.all()} == {2, 3, 4}
