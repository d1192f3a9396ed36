"""What a primary takes of its client managers: one link each, from its start, without a gap."""

from __future__ import annotations

from tocsin.cluster.envelope import Commands
from tocsin.model.limits import UNLINKED_SECONDS
from tocsin.node.group_links import Links, Verdict

EPOCH = 64
CM = 40


def message(link: int, number: int, epoch: int = EPOCH) -> Commands:
    return Commands(epoch, link, number, [])


def test_a_link_is_taken_from_its_start_and_in_order() -> None:
    links = Links(EPOCH)
    assert links.judge(CM, 1, message(5, 1)) is Verdict.BROKEN, "its start is missing"
    assert [links.judge(CM, 1, message(5, number)) for number in (0, 1, 2)] == [Verdict.TAKE] * 3
    assert links.judge(CM, 1, message(5, 1)) is Verdict.DROP, "it is here already"
    assert links.judge(CM, 1, message(5, 4)) is Verdict.BROKEN
    assert links.judge(CM, 1, message(5, 3)) is Verdict.TAKE
    assert links.origin_of(CM) == f"{CM}/1/5"


def test_a_new_link_ends_the_one_before() -> None:
    links = Links(EPOCH)
    links.judge(CM, 1, message(5, 0))
    assert links.judge(CM, 1, message(6, 0)) is Verdict.TAKE
    assert links.over == [f"{CM}/1/5"]
    assert links.judge(CM, 1, message(5, 1)) is Verdict.DROP
    assert links.of_origin(f"{CM}/1/5") is None
    assert links.of_origin(f"{CM}/1/6") is not None


def test_another_boot_is_another_client_manager() -> None:
    links = Links(EPOCH)
    links.judge(CM, 1, message(5, 0))
    assert links.judge(CM, 2, message(1, 1)) is Verdict.BROKEN
    assert links.judge(CM, 2, message(1, 0)) is Verdict.TAKE
    assert links.origin_of(CM) == f"{CM}/2/1"


def test_only_the_own_epoch_counts() -> None:
    links = Links(EPOCH)
    assert links.judge(CM, 1, message(5, 0, EPOCH - 1)) is Verdict.BROKEN
    assert links.judge(CM, 1, message(5, 0, EPOCH + 1)) is Verdict.DROP, "somebody else's: this one will hear of it"


def test_a_link_that_was_given_up_is_remembered_until_the_next() -> None:
    links = Links(EPOCH)
    assert links.forget(CM) is None and links.broken(CM) is None
    links.judge(CM, 1, message(5, 0))
    assert links.forget(CM) == f"{CM}/1/5"
    assert links.broken(CM) == 5
    links.judge(CM, 1, message(6, 0))
    assert links.broken(CM) is None


def test_links_are_complete_when_all_say_so() -> None:
    links = Links(EPOCH)
    assert links.complete(()) and not links.complete((CM,))
    links.judge(CM, 1, message(5, 0))
    assert not links.complete((CM,))
    link = links.of_origin(links.origin_of(CM))
    assert link is not None
    link.complete = True
    assert links.complete((CM,)) and not links.complete((CM, 41))


def test_nobody_is_told_of_a_broken_link_too_often() -> None:
    links = Links(EPOCH)
    assert links.may_tell(CM, 1.0)
    assert not links.may_tell(CM, 1.0 + UNLINKED_SECONDS / 2)
    assert links.may_tell(41, 1.0)
    assert links.may_tell(CM, 1.1 + UNLINKED_SECONDS)
